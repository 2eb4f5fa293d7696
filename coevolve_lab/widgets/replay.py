"""One trajectory turn by turn: what was asked, what the agent did, what the environment answered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ipywidgets as W

from coevolve_lab import environments
from coevolve_lab.config import load_config
from coevolve_lab.errors import StoreError
from coevolve_lab.records import Task
from coevolve_lab.store import RunReader, quoted
from coevolve_lab.widgets import markup, view
from coevolve_lab.widgets.known_tasks import KnownTasks

MOST_STEPS, MOST_TOKENS = 200, 2000


@view.never_raises
def trajectory_view(run: Any, trajectory_id: str) -> W.Widget:
    """A trajectory, readable; on demand, sampled tokens with their log-probabilities, and how its task is solved.

    >>> trajectory_view(run, run.trajectories()["id"][0])

    Tasks of the evaluation split are not stored: the run's environment is asked for them.
    """
    return TrajectoryView(run, trajectory_id)


class TrajectoryView(view.View):
    """See ``trajectory_view``; ``show`` turns to another trajectory."""

    def __init__(self, run: Any, trajectory_id: str) -> None:
        super().__init__()
        self._reader = view.reader_of(run)
        self._id = trajectory_id
        self.tokens = W.ToggleButton(False, description="tokens and log-probabilities", layout={"width": "auto"})
        self.tokens.add_class("coevolve-tokens")
        self.tokens.observe(lambda _: self.show(self._id), "value")
        self.solution = W.ToggleButton(False, description="reference solution", layout={"width": "auto"})
        self.solution.add_class("coevolve-solution")
        self.solution.observe(lambda _: self.show(self._id), "value")
        self._tasks: KnownTasks | None = None
        self.page = view.html()
        self.page.add_class("coevolve-trajectory")
        self.fill([W.HBox([self.tokens, self.solution]), self.page])
        self.show(trajectory_id)

    def show(self, trajectory_id: str) -> None:
        self._id = trajectory_id
        with self.guarded():
            self.page.value = markup.wrap(trajectory_html(self._reader, trajectory_id, self.tokens.value))
            if self.solution.value:  # afterwards: what is recorded is shown even if its task cannot be had
                self.page.value = markup.wrap(self._with_solution())

    def plain(self) -> tuple[str, str]:
        steps = self._reader.sql(
            f'select "index", action, observation, failed from steps where trajectory_id = {quoted(self._id)} '
            f'order by "index" limit {MOST_STEPS}'
        )
        html = trajectory_html(self._reader, self._id, self.tokens.value)
        return f"trajectory {self._id}\n{steps}", self._with_solution() if self.solution.value else html

    def _with_solution(self) -> str:
        if self._tasks is None:
            config = load_config(self._reader.config)
            environment = environments.make(config.environment.name, **config.environment.arguments())
            self._tasks = KnownTasks(self._reader, environment, config.environment.evaluation_split)
        found = self._reader.sql(f"select task_id from trajectories where id = {quoted(self._id)}")
        task = self._tasks.find(found["task_id"][0])
        return trajectory_html(self._reader, self._id, self.tokens.value, task) + solution_html(task)


def trajectory_html(reader: RunReader, trajectory_id: str, tokens: bool = False, task: Task | None = None) -> str:
    """The trajectory as HTML. task: its task, if the run does not store it. Raises StoreError when the run has no such
    trajectory."""
    name = quoted(trajectory_id)
    found = reader.sql(
        "select id, task_id, group_id, policy_version, round, step, score, status, purpose, n_steps, n_tokens, "
        f"temperature, detail from trajectories where id = {name} limit 1"
    )
    if found.is_empty():
        raise StoreError(f"no trajectory {trajectory_id!r} in {reader.run_dir}; run.trajectories()['id'] lists them")
    row = found.row(0, named=True)
    score = markup.tag(f"score {row['score']:.2f}", row["score"] >= 1)
    about = markup.muted(f"task {row['task_id']}, group {row['group_id']}")
    head = (
        f"<h4>Trajectory {markup.text(row['id'])}</h4>{score} "
        f"{markup.tag(row['status'], None if row['status'] == 'completed' else False)} round {row['round']}, "
        f"step {row['step']}, policy version {row['policy_version']}, {row['purpose']}, {row['n_steps']} actions, "
        f"{row['n_tokens']} tokens, temperature {row['temperature']:g}"
        f"<br>{about}"
    )
    if row["detail"]:
        head += f"<br>{markup.text(row['detail'])}"
    turns = list(task.turns) if task else turns_of(reader, row["task_id"])
    columns = 'turn, action, observation, tools, failed, "index"' + (", token_ids, logprobs" if tokens else "")
    steps = reader.sql(
        f"select {columns} from steps where round = {row['round']} and trajectory_id = {name} "
        f'order by "index" limit {MOST_STEPS}'
    ).to_dicts()
    decode = token_decoder(reader) if tokens else None
    body, turn = [], -1
    for step in steps:
        while turn < step["turn"]:
            turn += 1
            body.append(_user(turns, turn))
        body.append(step_html(step))
        if tokens:
            body.append(tokens_html(step, decode))
    if not steps:
        body += [_user(turns, 0), markup.muted("no action was recorded")]
    if row["n_steps"] > MOST_STEPS:
        body.append(markup.muted(f"{row['n_steps'] - MOST_STEPS} more steps are not shown"))
    return head + "".join(body)


def step_html(step: dict[str, Any], mark: str = "") -> str:
    """One action and its result. mark: a further CSS class."""
    kind = "failed" if step["failed"] else "good"
    label = markup.tag("failed", False) + " " if step["failed"] else ""
    calls = "" if step["tools"] else markup.muted("no call in it ")
    result = markup.block(step["observation"]) if step["observation"] else markup.muted("no result")
    return (
        f'<div class="card {kind} {mark}">{step["index"] + 1}. {label}{calls}{markup.block(step["action"])}'
        f"{result}</div>"
    )


def turns_of(reader: RunReader, task_id: str) -> list[str] | None:
    """What the user says in a task; None when the task is not in D_t (evaluation tasks are not stored)."""
    found = reader.sql(f"select turns from tasks where id = {quoted(task_id)} limit 1")
    return list(found["turns"][0]) if found.height else None


def token_decoder(reader: RunReader) -> Callable[[int], str] | None:
    """Text of a token by the tokenizer in the run's first checkpoint; None when it has none: ids are shown then."""
    try:
        file = Path(reader.checkpoint(min(reader.manifests(), default=None))) / "tokenizer.json"
    except StoreError:
        return None
    if not file.is_file():
        return None
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(file))
    return lambda token: str(tokenizer.decode([token], skip_special_tokens=False))


def _user(turns: list[str] | None, turn: int) -> str:
    if turns is None:
        return f'<div class="card">{markup.muted("the task is not in the task set, so its query is not stored")}</div>'
    said = turns[turn] if turn < len(turns) else ""
    return f'<div class="card"><b>User</b> {markup.block(said)}</div>'


def solution_html(task: Task) -> str:
    """The reference solution of a task, message by message."""
    if not any(task.solution):
        return f"<h4>Reference solution</h4>{markup.muted('there is none')}"
    rows = [
        (
            str(turn + 1),
            task.turns[turn] if turn < len(task.turns) else "",
            markup.Markup("".join(map(markup.block, calls))),
        )
        for turn, calls in enumerate(task.solution)
    ]
    return f"<h4>Reference solution</h4>{markup.table(('message', 'user', 'calls'), rows)}"


def tokens_html(step: dict[str, Any], decode: Callable[[int], str] | None) -> str:
    """Tokens on a ground that is the darker the less likely they were; the number is in the tooltip."""
    shown = []
    for token, logprob in zip(step["token_ids"][:MOST_TOKENS], step["logprobs"][:MOST_TOKENS], strict=False):
        said = decode(token) if decode else str(token)
        doubt = min(0.75, max(0.0, -logprob / 5))
        shown.append(
            f'<span class="token" style="background:rgba(213,94,0,{doubt:.2f})" title="id {token}, log-probability '
            f'{logprob:.3f}">{markup.text(said)}<sub>{round(logprob, 1) + 0.0:.1f}</sub></span>'
        )
    if not shown:
        return markup.muted("no tokens are stored for this action")
    total = sum(step["logprobs"])
    return f'<div class="card">{"".join(shown)}<br>{markup.muted(f"sum of log-probabilities {total:.2f}")}</div>'
