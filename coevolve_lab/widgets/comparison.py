"""Two runs over the same axes, or up to four: what was set differently, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ipywidgets as W

from coevolve_lab.evaluation.paired import Paired, paired
from coevolve_lab.store import RunReader
from coevolve_lab.widgets import comparison_queries as queries
from coevolve_lab.widgets import markup, view
from coevolve_lab.widgets.comparison_figure import comparison_figure, show

MOST_RUNS, MOST_TASKS, MOST_SETTINGS = 4, 20, 40
_LAST = -1  # in place of a training step: whichever evaluation is the last of each run


@view.never_raises
def compare(run_a: Any, run_b: Any, *more: Any) -> W.Widget:
    """Two branches over the same axes: settings that differ, curves, and the last evaluations task by task.

    >>> compare(run, run.fork(round=3, signals={"rare": False}))

    Each is a CoEvolve, a RunReader or a run folder, and may be running: only its folder is read. Up to four; all others
    are compared with the first. What a fork shares with the first is shaded.
    """
    return Comparison([run_a, run_b, *more])


@dataclass(frozen=True)
class Section:
    """A titled table; ``note`` stands below it, or in its place."""

    title: str
    names: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()
    note: str = ""

    def html(self) -> str:
        body = markup.table(self.names, self.rows) if self.rows else ""
        return f"<h4>{markup.text(self.title)}</h4>{body}{markup.muted(self.note) if self.note else ''}"

    def text(self) -> str:
        lines = [" | ".join(map(_text, row)) for row in (self.names, *self.rows)] if self.rows else []
        return "\n".join([self.title, *(f"  {line}" for line in lines), *([f"  {self.note}"] if self.note else [])])


class Comparison(view.View):
    """See ``compare``. ``refresh()`` reads the runs again."""

    def __init__(self, runs: Sequence[Any]) -> None:
        super().__init__()
        if len(runs) > MOST_RUNS:
            raise ValueError(f"{len(runs)} runs cannot be told apart in one figure: give at most {MOST_RUNS}")
        found = [view.reader_of(run) for run in runs]
        self._labels = queries.labels([reader.run_dir for reader in found])
        # A CoEvolve's reader changes when it begins to write; a folder needs to be opened only once.
        self._runs = [run if hasattr(run, "reader") else reader for run, reader in zip(runs, found, strict=True)]
        self._filling = False
        self._sides: list[queries.Side] = []
        self._shared: dict[str, queries.Shared | None] = {}
        self._sections: list[Section] = []
        self._paired: dict[str, Paired] = {}
        self.head, self.tables = view.html(), view.html()
        self.head.add_class("coevolve-differences")
        self.tables.add_class("coevolve-outcomes")
        self.smoothing = W.FloatSlider(0.6, min=0.0, max=0.95, step=0.05, description="smoothing")
        self.split = W.Dropdown(description="split", layout={"width": "210px"}, style={"description_width": "40px"})
        self.after = W.Dropdown(description="evaluation after", layout={"width": "290px"})
        self.after.style.description_width = "110px"
        self.again = view.button("refresh", "read the runs again", "coevolve-refresh", self.refresh)
        self.live = comparison_figure()
        self.smoothing.observe(lambda _: self.draw(), "value")
        self.split.observe(self._chosen, "value")
        self.after.observe(self._chosen, "value")
        bar = W.HBox([self.smoothing, self.split, self.after, self.again], layout={"flex_flow": "row wrap"})
        self.fill([self.head, bar, self.live.widget, self.tables])
        self.refresh()

    def refresh(self) -> None:
        """Read the runs again."""
        with self.guarded():
            readers = dict(zip(self._labels, map(view.reader_of, self._runs), strict=True))
            self._offer(list(readers.values()))
            self._sides = queries.sides(readers, self.split.value)
            first, *others = readers
            self._shared = {label: queries.shared_history(readers[first], readers[label]) for label in others}
            self._paired = {}
            before = [self._settings(), self._history()]
            self._sections = [*before, *self._outcomes()]
            self.head.value = markup.wrap("".join(section.html() for section in before))
            self.tables.value = markup.wrap("".join(section.html() for section in self._sections[len(before) :]))
            self._draw()

    def draw(self) -> None:
        """Draw what was read, smoothed as the slider says."""
        with self.guarded():
            self._draw()

    def plain(self) -> tuple[str, str]:
        if not self._sections:
            raise ValueError("the runs could not be read; fix what the view's error line says, then refresh()")
        text = "\n\n".join(section.text() for section in self._sections)
        return f"comparison of {', '.join(self._labels)}\n\n{text}", "".join(s.html() for s in self._sections)

    # ---- what is chosen

    def _offer(self, readers: Sequence[RunReader]) -> None:
        """Keep the choices in step with what the runs have by now."""
        splits = queries.common_splits(readers)
        self._filling = True
        try:
            kept = self.split.value
            self.split.options = splits
            self.split.value = kept if kept in splits else next(iter(splits), None)
            steps = queries.common_steps(readers, self.split.value) if splits else []
            kept = self.after.value
            self.after.options = [("the last of each", _LAST), *((f"{step:,} training steps", step) for step in steps)]
            self.after.value = kept if kept in steps else _LAST
        finally:
            self._filling = False

    def _chosen(self, _: Any) -> None:
        if not self._filling:
            self.refresh()

    # ---- what is shown

    def _draw(self) -> None:
        crossed = {label: pair.counts for label, pair in self._paired.items()}
        shared = [until for until in self._shared.values() if until is not None]
        show(self.live, self._sides, shared, crossed, self.smoothing.value)

    def _settings(self) -> Section:
        configs = [side.reader.config for side in self._sides]
        rows = queries.config_differences(configs)
        notes = [f"{len(rows) - MOST_SETTINGS} more differ"] if len(rows) > MOST_SETTINGS else []
        if not rows:
            notes.append("The configs are the same.")
        if len({config["environment"]["name"] for config in configs}) > 1:
            notes.append("Different environments: neither scores nor tasks can be compared.")
        return Section("Settings that differ", ("setting", *self._labels), rows[:MOST_SETTINGS], " ".join(notes))

    def _history(self) -> Section:
        said = []
        for label, until in self._shared.items():
            if until is None:
                said.append(f"{label} shares no round with {self._labels[0]}.")
            else:
                said.append(
                    f"{label} is the same as {self._labels[0]} up to round {until.round} (training step "
                    f"{until.step:,}), and apart from it since then."
                )
        done = [f"{side.label} {'none' if side.committed is None else side.committed}" for side in self._sides]
        return Section("History", note=f"{' '.join(said)} Last committed round: {', '.join(done)}.")

    def _outcomes(self) -> list[Section]:
        title = "Evaluations"
        if self.split.value is None:
            return [Section(title, note="No split has been evaluated in all of these runs: evaluate one in each.")]
        split, first = str(self.split.value), self._labels[0]
        after = None if self.after.value == _LAST else self.after.value
        seen = {side.label: queries.scored(side.reader, split, after) for side in self._sides}
        rows: list[tuple[Any, ...]] = []
        crossed: list[tuple[Any, ...]] = []
        sections: list[Section] = []
        for label, scored in seen.items():
            against: tuple[Any, ...] = ("", "", "")
            if label != first:
                try:
                    pair = self._paired[label] = paired(seen[first].outcomes, scored.outcomes)
                except ValueError as error:
                    sections.append(Section(f"{label} against {first}", note=f"Not compared: {error}."))
                else:
                    against = (f"{pair.difference:+.3f} ± {pair.stderr:.3f}", pair.tasks, _p(pair.p_value))
                    crossed.append((label, *(f"{n} ({n / pair.tasks:.0%})" for n in pair.counts)))
            score = f"{scored.score:.3f} ± {scored.stderr:.3f}"
            rows.append((label, scored.round, scored.step, len(scored.outcomes), score, *against))
        steps = {scored.step for scored in seen.values()}
        uneven = "The runs were trained for different numbers of steps: choose one above for an even comparison. "
        explained = (
            "± is one standard error; the paired one is over the tasks in common. p: McNemar's exact test, two-sided, "
            "of tasks that one run only solves."
        )
        columns = ("run", "round", "step", "tasks", "score", f"paired difference to {first}", "in common", "p")
        note = (uneven if len(steps) > 1 else "") + explained
        sections.insert(0, Section(f"{title} on split “{split}”", columns, rows, note))
        if crossed:
            other = f"only {crossed[0][0]}" if len(crossed) == 1 else "only the other"
            parts = (f"against {first}", "both right", f"only {first}", other, "neither")
            sections.append(Section("Tasks by who solves them", parts, crossed))
        return [*sections, *(self._tasks(label, seen) for label in self._paired)]

    def _tasks(self, label: str, seen: dict[str, queries.Scored]) -> Section:
        """Tasks that only one of two solves; what both called stands beside them."""
        first, pair = self._labels[0], self._paired[label]
        # Both kinds get half of the rows, and what the other leaves of its half.
        room = MOST_TASKS - min(len(pair.only_other), MOST_TASKS // 2)
        lost = pair.only_first[:room]
        gained = pair.only_other[: MOST_TASKS - len(lost)]
        readers = {side.label: side.reader for side in self._sides}
        chosen = (*lost, *gained)
        calls = {name: queries.tools_of(readers[name], seen[name].step, chosen) for name in (first, label)}
        rows = [
            (task, first if task in lost else label, calls[first].get(task), calls[label].get(task)) for task in chosen
        ]
        left = len(pair.only_first) + len(pair.only_other) - len(rows)
        note = f"{left} more" if left else "" if rows else "There are none."
        names = ("task", "solved by", f"calls of {first}", f"calls of {label}")
        return Section(f"Tasks that only {first} or only {label} solves", names, rows, note)


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _text(cell: Any) -> str:
    return " > ".join(map(str, cell)) if isinstance(cell, list) else "-" if cell in (None, "") else str(cell)
