"""Talk to any stored policy version: it gets a task or a free query in a real session, and one watches it act."""

from __future__ import annotations

import threading
from typing import Any

import ipywidgets as W

from coevolve_lab import environments
from coevolve_lab.assembly import round_of_version, stored_policy, stored_versions
from coevolve_lab.config import load_config
from coevolve_lab.environments.base import Environment
from coevolve_lab.errors import StoreError
from coevolve_lab.policy.conversation import Conversation, free_task
from coevolve_lab.policy.policy import Policy
from coevolve_lab.records import Task
from coevolve_lab.widgets import conversation_page, markup, replay, view
from coevolve_lab.widgets.known_tasks import KnownTasks

TASK, FREE = "a task", "a free query"
_TIPS = {
    "play": "let the agent act until it is done; a conversation that is over begins again",
    "one step": "one action of the agent",
    "stop": "stop after the action that is being sampled",
    "start over": "begin again from the start state",
}


@view.never_raises
def chat(run: Any, version: int | None = None, task_id: str | None = None) -> W.Widget:
    """Give a stored policy version a task or a free query in an environment session, and watch it act.

    >>> chat(run)                            # the newest version
    >>> chat(run, version=20, task_id="bfcl_held_out_3")

    Temperature 0 is greedy: a task of the evaluation split is then answered as in its evaluation. Nothing is written to
    the run, and a run that goes on in the background is not disturbed. The model is loaded at the first action.
    """
    return Chat(run, version, task_id)


class Chat(view.View):
    """See ``chat``. ``play``, ``one_step``, ``stop``, ``start_over`` and ``say`` do what the buttons do.

    The agent acts in a thread, so that the notebook stays free and ``stop`` is heard; ``wait`` waits for it.
    """

    def __init__(self, run: Any, version: int | None = None, task_id: str | None = None) -> None:
        super().__init__()
        self._reader = view.reader_of(run)
        self._config = load_config(self._reader.config)
        self._environment: Environment = environments.make(
            self._config.environment.name, **self._config.environment.arguments()
        )
        self._tasks = KnownTasks(self._reader, self._environment, self._config.environment.evaluation_split)
        self._policy: Policy | None = None
        self._conversation: Conversation | None = None
        self._given: tuple[Any, ...] = ()  # what the conversation was begun with
        self._thread: threading.Thread | None = None
        self._busy, self._drawing = False, threading.RLock()
        self._stopping = threading.Event()
        self._begun = 0
        self._note = ""
        self._make_widgets()
        self.refresh()
        if version is not None:
            round_of_version(self._reader, version)
            self.version.value = version
        if task_id is not None:
            self._tasks.find(task_id)
            self.task.value = task_id
        self._show()

    def _make_widgets(self) -> None:
        wide = {"description_width": "84px"}
        self.version = W.Dropdown(description="policy", style=wide, layout={"width": "300px"})
        self.source = W.Dropdown(options=[TASK, FREE], description="ask it", style=wide, layout={"width": "300px"})
        self.task = W.Combobox(description="task", placeholder="a task id", style=wide, layout={"width": "440px"})
        self.query = W.Textarea(
            description="query", placeholder="what the agent is asked, in the start state of the task above",
            style=wide, layout={"width": "745px", "height": "54px"},
        )  # fmt: skip
        self.temperature = W.FloatSlider(
            0.0, min=0.0, max=1.5, step=0.05, description="temperature", style=wide, layout={"width": "300px"},
            continuous_update=False,
        )  # fmt: skip
        self.surprise = view.button("surprise me", "pick any task", "coevolve-surprise", self._surprise)
        self.again = view.button("refresh", "look for newer versions and tasks", "coevolve-refresh", self.refresh)
        actions = {"play": self.play, "one step": self.one_step, "stop": self.stop, "start over": self.start_over}
        self.buttons = {
            name: view.button(name, _TIPS[name], f"coevolve-{name.replace(' ', '-')}", do)
            for name, do in actions.items()
        }
        self.tokens = W.ToggleButton(False, description="tokens and log-probabilities", layout={"width": "auto"})
        self.solution = W.ToggleButton(False, description="reference solution", layout={"width": "auto"})
        self.more = W.Text(placeholder="say something further, once the agent is done", layout={"width": "640px"})
        self.say_it = view.button("say", "the agent goes on", "coevolve-say", lambda: self.say(self.more.value))
        self.page = view.html()
        self.status_line = view.html()
        self.status_line.layout.margin = "6px 0 0"
        for name, widget in (
            ("version", self.version), ("source", self.source), ("task", self.task), ("query", self.query),
            ("tokens", self.tokens), ("solution", self.solution), ("more", self.more), ("conversation", self.page),
            ("status", self.status_line),
        ):  # fmt: skip
            widget.add_class(f"coevolve-{name}")
        for widget in (self.source, self.task, self.query, self.tokens, self.solution):
            widget.observe(lambda _: self._changed(), "value")
        self.query.layout.display = "none"
        row = {"flex_flow": "row wrap"}
        self.fill(
            [
                W.HBox([self.version, self.task, self.surprise, self.again], layout=row),
                W.HBox([self.source, self.temperature], layout=row),
                self.query,
                W.HBox([*self.buttons.values(), self.tokens, self.solution], layout=row),
                self.status_line,
                self.page,
                W.HBox([self.more, self.say_it], layout=row),
            ]
        )

    # ---- what the buttons do

    def refresh(self) -> None:
        """Look for versions and tasks again."""
        with self.guarded():
            found = stored_versions(self._reader)
            if not found:
                raise StoreError(
                    f"{self._reader.run_dir} has no stored policy yet: one is stored with each committed round, the "
                    "first by run.seed_tasks()"
                )
            kept = self.version.value
            self.version.options = [(f"version {version} (round {found[version]})", version) for version in found]
            self.version.value = kept if kept in found else max(found)
            self.task.options = self._tasks.ids()
            if not self.task.value and self.task.options:
                self.task.value = self.task.options[0]

    def play(self) -> None:
        """Let the agent act until it is done."""
        self._act(None)

    def one_step(self) -> None:
        """Let the agent act once."""
        self._act(1)

    def stop(self) -> None:
        """Ask the agent to stop after the action that is being sampled."""
        self._stopping.set()

    def start_over(self) -> None:
        """Forget the conversation; the next action begins a new one."""
        if not self.acting:
            with self.guarded():
                self._drop()
                self._show()

    def say(self, text: str) -> None:
        """Say something further, and let the agent go on."""
        if self.acting or not text.strip():
            return
        ready = False
        with self.guarded():
            if self._conversation is None:
                raise StoreError("nothing was asked yet: press play first")
            self._conversation.say(text)
            self.more.value = ""
            ready = True
        if ready:
            self._start(None)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the agent stops acting; False when it still does after ``timeout`` seconds."""
        if self._thread is not None:
            self._thread.join(timeout)
        return not self.acting

    @property
    def acting(self) -> bool:
        """Whether the agent acts now, or its model is being loaded."""
        return self._busy

    def close(self) -> None:
        """Stop the agent, and remove the widgets."""
        self._stopping.set()
        super().close()

    def plain(self) -> tuple[str, str]:
        said = self._conversation
        text = "nothing was asked yet" if said is None else conversation_page.conversation_text(said)
        html = f"<p>{conversation_page.status_html(said, self._note)}</p>{self._page()}"
        return f"chat with a policy of {self._reader.run_dir}\n{text}", html

    # ---- acting, in a thread

    def _act(self, steps: int | None) -> None:
        ready = False
        if self.acting:
            return
        with self.guarded():
            if self.version.value is None:
                raise StoreError(f"{self._reader.run_dir} has no stored policy yet: press refresh once it has")
            asked = (self.version.value, self._asked(), self.temperature.value)
            if self._conversation is None or self._conversation.done or asked != self._given:
                self._drop()
                self._given = asked
            ready = True
        if ready:
            self._start(steps)

    def _start(self, steps: int | None) -> None:
        self._stopping.clear()
        self._busy = True
        self._thread = threading.Thread(target=self._run, args=(steps,), name="chat", daemon=True)
        self._thread.start()

    def _run(self, steps: int | None) -> None:
        """Load what is needed, then act until done, stopped, or out of ``steps``."""
        try:
            with self.guarded():
                if self._conversation is None:
                    self._begin()
                done = 0
                assert self._conversation is not None
                while not (self._conversation.done or self._stopping.is_set() or done == steps):
                    self._note = f"action {len(self._conversation.steps) + 1} is being sampled"
                    self._show()
                    self._conversation.step()
                    done += 1
        finally:
            self._busy, self._note = False, ""
            self._show()

    def _begin(self) -> None:
        version, task, temperature = self._given
        self._note = f"loading version {version} of the policy"
        self._show()
        if self._policy is None:
            _, self._policy = stored_policy(self._config, self._reader, round_of_version(self._reader, version))
        elif self._policy.version != version:
            self._policy.load(self._reader.checkpoint(round_of_version(self._reader, version)))
        self._begun += 1
        self._conversation = Conversation(
            self._environment,
            self._policy,
            task,
            limits=self._config.rollout,
            max_steps=self._config.environment.max_steps,
            temperature=temperature,
            seed=self._begun,
        )

    def _drop(self) -> None:
        if self._conversation is not None:
            self._conversation.close()
        self._conversation, self._given = None, ()

    def _asked(self) -> Task:
        task = self._tasks.find(self.task.value)
        if self.source.value == TASK:
            return task
        if not self.query.value.strip():
            raise StoreError("the free query is empty: write what the agent is to do")
        return free_task(self.query.value, task)

    def _surprise(self) -> None:
        with self.guarded():
            self.task.value = self._tasks.any_id()

    # ---- showing

    def _changed(self) -> None:
        with self.guarded():
            self.query.layout.display = None if self.source.value == FREE else "none"
            self._show()

    def _preview(self) -> Task | None:
        """What would be asked; None while an id is being typed."""
        try:
            return self._asked()
        except StoreError:
            return None

    def _page(self) -> str:
        said = self._conversation
        task = said.asked if said is not None else self._preview()
        body = conversation_page.task_html(task) if said is None and task is not None else ""
        if said is not None:
            chat = self._policy.chat if self.tokens.value and self._policy is not None else None
            body = conversation_page.conversation_html(said, getattr(chat, "tokenizer", None))
        return body + (replay.solution_html(task) if self.solution.value and task is not None else "")

    def _show(self) -> None:
        said = self._conversation
        with self._drawing:
            self.status_line.value = markup.wrap(conversation_page.status_html(said, self._note))
            self.page.value = markup.wrap(self._page())
            for name, button in self.buttons.items():
                button.disabled = self._busy != (name == "stop")
            self.say_it.disabled = self._busy or said is None or said.status != "completed"
