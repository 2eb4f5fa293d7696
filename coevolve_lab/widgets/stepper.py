"""One weakness, step by step: from the signal to the task that it led to, and from a task back to what caused it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ipywidgets as W

from coevolve_lab import environments
from coevolve_lab.config import load_config
from coevolve_lab.errors import StoreError
from coevolve_lab.records import Task, TaskDraft
from coevolve_lab.widgets import chain, markup, pages, view
from coevolve_lab.widgets.browsers import SIGNAL_DETAILS, SIGNAL_FILTERS, SIGNALS
from coevolve_lab.widgets.paging import PagedTable
from coevolve_lab.widgets.replay import trajectory_html

STAGES = ("signal", "trajectory", "group", "context", "exploration", "drafts", "task")
MOST_VISITS = 40  # the last ones, in the list of trajectories to open
# Signals that something came of first: most were never reflected on.
_ORDER = '"led to tasks" desc, round desc, step desc, id'
_LED_TO = f"""
select r.*, coalesce(c.n, 0) as "led to tasks" from ({SIGNALS}) r left join (
    select c.signal_id, count(distinct t.id) as n from contexts c join drafts d on d.context_id = c.id
    join tasks t on t.draft_id = d.id where c.signal_id is not null group by c.signal_id
) c on c.signal_id = r.id
"""
_COLUMNS = ("id", "kind", "round", "score", "pattern", "led to tasks", "task_id")


@view.never_raises
def step_through(run: Any, signal_id: str | None = None, task_id: str | None = None) -> W.Widget:
    """Follow one weakness through the ring.

    >>> step_through(run)                       # pick a signal
    >>> step_through(run, task_id="task-...")    # what caused this task?

    Links that are missing (a signal nobody reflected on, a rejected draft, an unguided context) are said plainly.
    """
    made = StepThrough(run, begin=signal_id is None and task_id is None)
    if task_id is not None:
        made.show_task(task_id)
    elif signal_id is not None:
        made.show_signal(signal_id)
    return made


class StepThrough(view.View):
    """See ``step_through``. ``show_signal``, ``show_task`` and ``show_stage`` do what the buttons do.

    begin: at the first signal of the list.
    """

    def __init__(self, run: Any, begin: bool = True) -> None:
        super().__init__()
        self._reader = view.reader_of(run)
        self._signal: dict[str, Any] | None = None
        self._contexts: dict[str, dict[str, Any]] = {}
        self._environment: environments.Environment | None = None
        self._filling = False
        self.signals = PagedTable(
            self._reader, _LED_TO, _ORDER, SIGNAL_FILTERS, self.show_signal, 8, _COLUMNS, SIGNAL_DETAILS, SIGNALS
        )
        self.stages = W.ToggleButtons(options=STAGES, style={"button_width": "108px"})
        self.stages.add_class("coevolve-stages")
        self.context = W.Dropdown(description="context", layout={"width": "330px"})
        self.task = W.Combobox(description="task", placeholder="a task id", layout={"width": "330px"})
        self.back = view.button("what caused this task?", "to its signal", "coevolve-back", self._back)
        self.tokens = W.ToggleButton(False, description="tokens and log-probabilities", layout={"width": "auto"})
        self.tokens.add_class("coevolve-tokens")
        self.about = view.button("its task", "to the task that this signal is about", "coevolve-about", self._about)
        self.draft = W.Dropdown(description="draft", layout={"width": "420px"})
        self.replay = view.button(
            "replay the solution", "execute it again, in a fresh session", "coevolve-replay", self.show_replay
        )
        self.visit = W.Dropdown(description="visit", layout={"width": "420px"})
        self.visit.add_class("coevolve-visit")
        self.page, self.beside = view.html(), view.html()
        self.page.add_class("coevolve-page")
        self.beside.add_class("coevolve-beside")
        for widget in (self.stages, self.context, self.task, self.tokens):
            widget.observe(lambda _: self._turn(), "value")
        self.draft.observe(lambda _: self._put_beside(""), "value")
        self.visit.observe(self._visited, "value")
        # What belongs to a stage is shown with it only.
        self._tools = {
            self.tokens: ("trajectory",),
            self.about: ("signal", "trajectory", "group"),
            self.draft: ("drafts",),
            self.replay: ("drafts", "task"),
            self.visit: ("task",),
        }
        for widget in self._tools:
            widget.layout.display = "none"
        picks = W.HBox([self.context, self.task, self.back], layout={"flex_flow": "row wrap"})
        tools = W.HBox(list(self._tools), layout={"flex_flow": "row wrap"})
        self.fill([self.signals, self.stages, picks, tools, self.beside, self.page])
        if begin and not self.signals.error:
            self._begin()

    def show_signal(self, signal_id: str, stage: str = "signal") -> None:
        """Begin at a signal."""
        with self.guarded():
            self._signal = chain.signal(self._reader, signal_id)
            if self._signal is None:
                self._offer([])
                self._say(f"no signal {signal_id} in this run")
                return
            self._offer(chain.contexts(self._reader, signal_id))
            with self._quietly():
                self.stages.value = stage
            self._show()

    def show_task(self, task_id: str) -> None:
        """Begin at a task, and find what caused it."""
        with self.guarded():
            origin = chain.cause(self._reader, task_id)
            if origin is None:
                self._say(f"task {task_id} is not in the task set")
                return
            self._signal = chain.signal(self._reader, origin["signal_id"]) if origin["signal_id"] else None
            found = chain.contexts(self._reader, origin["signal_id"]) if origin["signal_id"] else []
            if not found and origin["context_id"]:
                found = [row for row in [chain.context(self._reader, origin["context_id"])] if row]
            self._offer(found, origin["context_id"], task_id)
            with self._quietly():
                self.stages.value = "task"
            self._show()

    def show_stage(self, stage: str) -> None:
        """One of STAGES."""
        self.stages.value = stage

    def show_replay(self) -> None:
        """Execute the solution of the draft, or of the task, that is chosen, and show what came of every call."""
        with self.guarded():
            kind, name = (TaskDraft, self.draft.value) if self.stages.value == "drafts" else (Task, self.task.value)
            self._put_beside(markup.muted("executing ..."))
            found = self._reader.records(kind, where=f"id = {chain.quoted(name)}")
            if not found:
                self._put_beside(markup.muted(f"nothing to execute: no {kind.__name__} {name!r} in this run"))
                return
            try:
                self._put_beside(pages.replay_page(self._world(), found[0]))  # type: ignore[arg-type]
            except Exception as failure:  # whatever a benchmark's own code raises on a bad draft
                self._put_beside(markup.error(failure))

    def plain(self) -> tuple[str, str]:
        name = self._signal["id"] if self._signal else "no signal"
        body = "".join(f"<h3>{stage}</h3>{self._page(stage)}" for stage in STAGES)
        page, count = self.signals.page()
        return f"step_through: {name} ({count} signals)\n{page.select('id', 'kind', 'round', 'led to tasks')}", body

    # ---- inside

    def _begin(self) -> None:
        if self.signals.shown.height:
            self.show_signal(self.signals.shown["id"][0])
        else:
            self._say("no signals yet: they come with the first round of training")

    def _world(self) -> environments.Environment:
        """The run's environment, made anew from its config."""
        if self._environment is None:
            chosen = load_config(self._reader.config).environment
            self._environment = environments.make(chosen.name, **chosen.arguments())
        return self._environment

    @contextmanager
    def _quietly(self) -> Iterator[None]:
        """Set widgets without turning the page."""
        before, self._filling = self._filling, True
        try:
            yield
        finally:
            self._filling = before

    def _offer(self, contexts: list[dict[str, Any]], context: str | None = None, task: str | None = None) -> None:
        self._contexts = {found["id"]: found for found in contexts}
        with self._quietly():
            self.context.options = list(self._contexts) or [""]
            self.context.value = context if context in self._contexts else self.context.options[0]
            self._offer_tasks(task)

    def _offer_tasks(self, task: str | None = None) -> None:
        found = self._context()
        self.task.options = chain.tasks_of(self._reader, found["id"], found["round"]) if found else []
        self.task.value = task or (self.task.options[0] if self.task.options else "")
        self._tasks_of = found["id"] if found else None

    def _turn(self) -> None:
        if self._filling:
            return
        with self.guarded():
            found = self._context()
            if found and found["id"] != self._tasks_of:
                with self._quietly():
                    self._offer_tasks()
            self._show()

    def _show(self) -> None:
        stage = self.stages.value
        with self._quietly():
            if stage == "drafts":
                self._offer_drafts()
            elif stage == "task":
                self._offer_visits()
        for widget, homes in self._tools.items():
            widget.layout.display = None if stage in homes else "none"
        self._put_beside("")
        self.page.value = markup.wrap(self._page(stage))

    def _offer_drafts(self) -> None:
        found = self._context()
        rows = chain.drafts(self._reader, found["id"], found["round"]) if found else []
        self.draft.options = [(f"{row['id']} ({row['outcome'] or 'not validated'})", row["id"]) for row in rows]
        own = [row["id"] for row in rows if row["task_id"] and row["task_id"] == self.task.value]
        if rows:
            self.draft.value = (own or [rows[0]["id"]])[0]
        self.replay.disabled = not rows

    def _offer_visits(self) -> None:
        rows = chain.visits(self._reader, self.task.value) if self.task.value else []
        options: dict[str, str] = {"read a trajectory": ""}
        for row in reversed(rows[-MOST_VISITS:]):
            options[f"step {row['step']}, best of {row['members']}"] = row["best"]
            options[f"step {row['step']}, worst of {row['members']}"] = row["worst"]
        self.visit.options = list(options.items())
        self.visit.value = ""
        self.replay.disabled = not self.task.value

    def _visited(self, change: Any) -> None:
        if self._filling:
            return
        with self.guarded():
            self._put_beside(trajectory_html(self._reader, change["new"]) if change["new"] else "")

    def _put_beside(self, body: str) -> None:
        self.beside.value = markup.wrap(body)

    def _say(self, what: str) -> None:
        self._put_beside("")
        self.page.value = markup.wrap(markup.muted(what))

    def _context(self) -> dict[str, Any] | None:
        return self._contexts.get(self.context.value)

    def _page(self, stage: str) -> str:
        signal, reader = self._signal, self._reader
        if stage in ("signal", "trajectory", "group"):
            if signal is None:
                return markup.muted("no signal leads here: what you look at began with unguided exploration")
            if stage == "signal":
                return pages.signal_page(reader, signal)
            if stage == "trajectory":
                return trajectory_html(reader, signal["trajectory_id"], self.tokens.value)
            return pages.group_page(reader, signal["group_id"], signal["round"], signal["trajectory_id"])
        if stage == "task":
            if self.task.value:
                return pages.task_page(reader, self.task.value)
            return markup.muted("no task came of this context; its drafts say why")
        found = self._context()
        if found is None:
            return markup.muted("nobody reflected on this signal: a round reflects on some of its signals only")
        if stage == "context":
            return pages.context_page(found)
        return {"exploration": pages.exploration_page, "drafts": pages.drafts_page}[stage](reader, found)

    def _back(self) -> None:
        with self.guarded():
            origin = chain.cause(self._reader, self.task.value)
            if origin is None or origin["signal_id"] is None:
                self.page.value = markup.wrap(pages.task_page(self._reader, self.task.value))
                return
            self.show_task(self.task.value)
            self.show_signal(origin["signal_id"])

    def _about(self) -> None:
        with self.guarded():
            if self._signal is None:
                raise StoreError("no signal is shown; pick one in the table")
            self.show_task(self._signal["task_id"])
