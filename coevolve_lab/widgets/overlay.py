"""Every run under a folder in one table, and two to four of them over the same axes."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import ipywidgets as W
import polars as pl

from coevolve_lab.background import Background
from coevolve_lab.figures import style
from coevolve_lab.store import RunReader
from coevolve_lab.store.run_folder import RunFolder
from coevolve_lab.widgets import markup, view
from coevolve_lab.widgets.figure import LiveFigure
from coevolve_lab.widgets.progress_figure import WIDTH
from coevolve_lab.widgets.progress_queries import look

MOST_RUNS, MOST_OVERLAID = 200, 4
_COLUMNS = (
    "run", "status", "environment", "mode", "rounds", "steps", "tasks", "first score", "last score", "hours",
    "last commit", "fork of",
)  # fmt: skip


@view.never_raises
def runs(folder: str | Path = "data/runs") -> W.Widget:
    """All runs under a folder: status, environment, mode, steps, scores, cost, when a round was last committed, and the
    run and round that it was forked from ("demo@3"). Mark two to four to overlay them.

    >>> runs()

    The lines are the sampled training reward, smoothed as the slider says, with the raw values kept as faint points;
    the marked points are evaluations with their standard error. The search keeps runs in whose row all of its words
    occur.
    """
    return Runs(Path(folder))


@dataclass(frozen=True)
class Summary:
    """One run in one row. committed: local time of the last commit. problem: why it cannot be read, then all else is
    empty."""

    name: str
    status: str = ""
    environment: str = ""
    mode: str = ""
    rounds: str = ""
    steps: int | None = None
    tasks: int | None = None
    first: str = ""
    last: str = ""
    hours: float | None = None
    committed: str = ""
    fork_of: str = ""
    problem: str = ""


def _text(summary: Summary) -> str:
    """Its row as text in small letters, to search in."""
    return " ".join(str(value) for value in astuple(summary) if value is not None).lower()


def summaries(folder: Path) -> list[Summary]:
    """The runs right under ``folder``, newest first; a damaged one says so and hides no other."""
    found = sorted(folder.glob("*/config.json"), key=lambda path: path.stat().st_mtime, reverse=True)
    return [_summary(path.parent) for path in found[:MOST_RUNS]]


def _summary(run_dir: Path) -> Summary:
    try:
        reader = RunReader(run_dir)
        seen, config = look(reader), reader.config
        evolution = config["evolution"]
        done, wanted = seen.committed, int(config["rounds"])
        scores = [f"{row['score']:.3f} ± {row['stderr']:.3f}" for row in seen.evaluations.to_dicts()]
        return Summary(
            run_dir.name,
            _status(run_dir, done, wanted),
            str(config["environment"]["name"]),
            str(evolution["mode"]),
            f"{0 if done is None else done} of {wanted}",
            seen.steps,
            seen.size,
            scores[0] if scores else "",
            scores[-1] if scores else "",
            seen.seconds / 3600,
            "" if done is None else _local_time(RunFolder(run_dir).manifest(done)),
            _parent(run_dir),
        )
    except Exception as error:  # one damaged run must not hide the others
        return Summary(run_dir.name, "cannot be read", problem=str(error))


def _local_time(path: Path) -> str:
    return datetime.fromtimestamp(path.stat().st_mtime).strftime("%Y-%m-%d %H:%M")


def _parent(run_dir: Path) -> str:
    """The run that this one was forked from, and the round; "" if it was not."""
    origin = RunFolder(run_dir).read_config().get("forked_from")
    return f"{Path(origin['run']).name}@{origin['round']}" if origin else ""


def _status(run_dir: Path, done: int | None, wanted: int) -> str:
    state = Background(run_dir).status().state
    if state in ("idle", "finished"):  # the background may have been asked for fewer rounds
        return "finished" if done is not None and done >= wanted else "idle"
    return state


class Runs(view.View):
    """See ``runs``."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder, self._found, self._filling = folder, list[Summary](), False
        self.table = view.html()
        self.again = view.button("refresh", "look for runs again", "coevolve-refresh", self.refresh)
        self.search = W.Text(placeholder="only runs with these words", layout={"width": "240px"})
        self.search.add_class("coevolve-search")
        self.search.observe(lambda _: self._list(), "value")
        self.chosen = W.SelectMultiple(rows=6, description="overlay", layout={"width": "420px"})
        self.chosen.add_class("coevolve-overlay")
        self.smoothing = W.FloatSlider(0.6, min=0.0, max=0.95, step=0.05, description="smoothing")
        empty = style.figure("Runs over the same axes", "training step", "score and training reward", height=440)
        empty.update_layout(width=WIDTH)
        self.live = LiveFigure(empty)
        self.chosen.observe(lambda _: None if self._filling else self.draw(), "value")
        self.smoothing.observe(lambda _: self.draw(), "value")
        self.fill([self.search, self.table, W.HBox([self.chosen, self.smoothing, self.again]), self.live.widget])
        self.refresh()

    def refresh(self) -> None:
        """Look for runs again."""
        with self.guarded():
            begins = not self._found
            self._found = summaries(self._folder)
            self._list()
            if begins:
                self.chosen.value = self.chosen.options[:2]
        if not self.error:  # apart: the guard around what goes well would wipe what draw says
            self.draw()

    def draw(self) -> None:
        """Put the chosen runs into the figure."""
        with self.guarded():
            names = list(self.chosen.value)[:MOST_OVERLAID]
            seen = [look(RunReader(self._folder / name)) for name in names]
            with self.live.batch():
                for slot in range(MOST_OVERLAID):
                    self._slot(slot, names[slot] if slot < len(names) else None, seen)
            if len(self.chosen.value) > MOST_OVERLAID:
                raise ValueError(f"the first {MOST_OVERLAID} of the marked runs are shown: more cannot be told apart")

    def plain(self) -> tuple[str, str]:
        found = self._passing(summaries(self._folder))
        lines = [f"{s.name}: {s.problem or f'{s.status}, round {s.rounds}, {s.last}'}" for s in found]
        return f"runs under {self._folder}\n" + "\n".join(lines or ["none"]), self._html(found)

    def _passing(self, found: list[Summary]) -> list[Summary]:
        words = self.search.value.lower().split()
        return [summary for summary in found if all(word in _text(summary) for word in words)]

    def _list(self) -> None:
        """Show the runs that pass the search, and offer them for the figure; what is in it stays."""
        passing = self._passing(self._found)
        self.table.value = markup.wrap(self._html(passing))
        readable = [s.name for s in self._found if not s.problem and (s in passing or s.name in self.chosen.value)]
        if list(self.chosen.options) != readable:
            self._filling = True  # new options empty the selection for a moment
            try:
                kept = [name for name in self.chosen.value if name in readable]
                self.chosen.options = readable
                self.chosen.value = kept
            finally:
                self._filling = False

    def _html(self, found: list[Summary]) -> str:
        if not found and self.search.value:
            return markup.muted(f"no run under {self._folder} has all of these words in its row")
        if not found:
            return markup.muted(f"no runs under {self._folder} yet: coevolve-lab demo makes one")
        rows: list[tuple[Any, ...]] = []
        for s in found:
            if s.problem:
                rows.append((s.name, s.status, s.problem, *([None] * (len(_COLUMNS) - 3))))
            else:
                rows.append(
                    (s.name, s.status, s.environment, s.mode, s.rounds, s.steps, s.tasks, s.first, s.last, s.hours,
                     s.committed, s.fork_of)
                )  # fmt: skip
        return markup.table(_COLUMNS, rows)

    def _slot(self, slot: int, name: str | None, seen: list[Any]) -> None:
        """One run's raw rewards, smoothed rewards and evaluations; without a run, its traces are emptied."""
        if name is None and f"raw {slot}" not in self.live.traces:
            return
        drawn = style.OTHERS[slot]
        updates = seen[slot].updates if name else pl.DataFrame({"step": [], "reward": []})
        scores = seen[slot].evaluations if name else pl.DataFrame({"step": [], "score": [], "stderr": []})
        smooth = updates["reward"].cast(pl.Float64).ewm_mean(alpha=1 - self.smoothing.value)
        raw: dict[str, Any] = {"mode": "markers", "marker": {"color": drawn.color, "size": 4, "opacity": 0.45}}
        line: dict[str, Any] = {"mode": "lines", "line": style.line(drawn, 2)}
        marked: dict[str, Any] = {"mode": "markers", "marker": style.point(drawn, 10)}
        for what, x, y, error, look_ in (
            ("raw", updates["step"], updates["reward"], [], {**raw, "showlegend": False}),
            ("smooth", updates["step"], smooth, [], line),
            ("score", scores["step"], scores["score"], scores["stderr"].to_list(), {**marked, "showlegend": False}),
        ):
            change = {"name": name or "", "visible": name is not None, "error_y.array": error}
            self.live.put(f"{what} {slot}", x, y, change=change, legendgroup=str(slot), **look_)
