"""What the finished runs of a plan hold, as frames: one place that knows where a run's score stands in a table.

>>> found = collect(expand(load("table3"), "tiny"), Path("data/experiments/runs"))
>>> found.scores        # the last evaluation of every run on every split, with the one before training
>>> found.missing       # cells whose runs are not finished: nothing stands in for them
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from coevolve_lab import environments
from coevolve_lab.config import Config, fingerprint
from coevolve_lab.evaluation.metrics import by_scenario, pass_rate
from coevolve_lab.experiments.folders import is_finished
from coevolve_lab.experiments.plan import Cell, Plan, world_name
from coevolve_lab.records import Evaluation, Task
from coevolve_lab.store import RunReader

SCORES: dict[str, Any] = {
    "row": pl.String,
    "column": pl.String,
    "arm": pl.String,
    "method": pl.String,
    "environment": pl.String,
    "seed": pl.Int64,
    "split": pl.String,
    "test": pl.Boolean,
    "step": pl.Int64,
    "score": pl.Float64,
    "stderr": pl.Float64,
    "tasks": pl.Int64,
    "before": pl.Float64,
    "run_dir": pl.String,
}
_ALSO_OF_STEPS = ("step", "score", "stderr", "tasks")


@dataclass(frozen=True)
class Played:
    """How a run did on one split, and where that stands in the table.

    evaluations: oldest first. config: of the run, or of the other world that its policy was evaluated in. test: the
    split is the one that the column reports; others, such as "validation", are for choosing.
    """

    cell: Cell
    row: str
    column: str
    split: str
    test: bool
    config: Config
    evaluations: tuple[Evaluation, ...]

    @property
    def last(self) -> Evaluation:
        return self.evaluations[-1]

    @property
    def before(self) -> Evaluation | None:
        """The evaluation before training; None if the split was not played then."""
        return self.evaluations[0] if self.evaluations[0].step == 0 else None

    @property
    def place(self) -> dict[str, Any]:
        """What rows of frames begin with."""
        cell = self.cell
        return {
            "row": self.row,
            "column": self.column,
            "arm": cell.arm,
            "method": cell.method,
            "environment": cell.environment,
            "seed": cell.seed,
            "split": self.split,
        }

    def placed(self, frame: pl.DataFrame) -> pl.DataFrame:
        """A frame about this run, with row, column and seed in front."""
        place = {"row": self.row, "column": self.column, "seed": self.cell.seed}
        return frame.select(*(pl.lit(value).alias(name) for name, value in place.items()), pl.all())


@dataclass(frozen=True)
class Results:
    """The finished part of a plan, with its runs' records. embedding: model for what compares queries (``embed``);
    vectors: what it made so far, by text, since runs share tasks."""

    plan: Plan
    folder: Path
    embedding: str
    cells: tuple[Cell, ...]
    missing: tuple[Cell, ...]
    played: tuple[Played, ...]
    _readers: dict[str, RunReader] = field(repr=False)
    vectors: dict[str, NDArray[np.float64]] = field(default_factory=dict, repr=False)
    _tasks: dict[str, list[Task]] = field(default_factory=dict, repr=False)

    @cached_property
    def scores(self) -> pl.DataFrame:
        """One row for the last evaluation of each run on each split.

        Columns row, column (of the table), arm, method, environment, seed, split, test, step, score and stderr (over
        tasks) in [0, 1], tasks, before (score on the split before training, null if it was not played then), run_dir.
        """
        rows = [
            {
                **one.place,
                "test": one.test,
                **_measured(one.last),
                "before": one.before.score if one.before else None,
                "run_dir": str(self.folder / one.cell.key),
            }
            for one in self.played
        ]
        return pl.DataFrame(rows, schema=SCORES)

    @cached_property
    def curves(self) -> pl.DataFrame:
        """All evaluations of the runs' own reported split, before training included: columns of ``scores`` up to split,
        then step, score, stderr, tasks. Where a step has several (Reflexion's trials), the last counts."""
        rows = [
            {**one.place, **_measured(evaluation)}
            for one in self.reported
            for evaluation in {e.step: e for e in one.evaluations}.values()
        ]
        columns = ("row", "column", "arm", "method", "environment", "seed", "split", *_ALSO_OF_STEPS)
        return pl.DataFrame(rows, schema={name: SCORES[name] for name in columns})

    @property
    def reported(self) -> list[Played]:
        """What the runs' own columns report: no splits for choosing, no other worlds."""
        return [one for one in self.played if one.test and one.config is one.cell.config]

    @property
    def rows(self) -> list[str]:
        """Rows of the table that have a finished run, in the order of the experiment's arms."""
        there = {cell.arm for cell in self.cells}
        arms = self.plan.experiment.arms
        return list(dict.fromkeys(settings.row or arm for arm, settings in arms.items() if arm in there))

    @property
    def columns(self) -> list[str]:
        """Columns that have a score, in the order in which the plan comes to them."""
        return list(dict.fromkeys(one.column for one in self.played))

    def by_seed(self, row: str, column: str, split: str | None = None) -> dict[int, Played]:
        """What stands at one place of the table, by seed. split: one for choosing; None: the reported one."""
        return {
            one.cell.seed: one
            for one in self.played
            if (one.row, one.column) == (row, column) and (one.test if split is None else one.split == split)
        }

    def reader(self, cell: Cell) -> RunReader:
        """The records of a finished cell's run, shared with other cells of the same run."""
        return self._readers[cell.key]

    def evaluation_tasks(self, one: Played) -> list[Task]:
        """The tasks that a run was evaluated on. Raises PrerequisiteError if their environment is not installed."""
        environment = one.config.environment
        key = fingerprint([environment.model_dump(mode="json"), one.split])
        if key not in self._tasks:
            self._tasks[key] = environments.make(environment.name, **environment.arguments()).tasks(one.split)
        return self._tasks[key]


def collect(plan: Plan, folder: Path, embedding: str = "minilm") -> Results:
    """What the finished runs of a plan hold; runs of other configs lie in other folders and are not seen.

    embedding: what ``evaluation.embedding.embed`` takes; used only by outputs that compare queries.
    """
    finished = {cell.key for cell in plan.runs if is_finished(cell, folder)}
    cells = tuple(cell for cell in plan.cells if cell.key in finished)
    missing = tuple(cell for cell in plan.cells if cell.key not in finished)
    readers = {key: RunReader(folder / key) for key in finished}
    played = tuple(one for cell in cells for one in _played(plan, cell, readers[cell.key]))
    return Results(plan, folder, embedding, cells, missing, played, readers)


def _played(plan: Plan, cell: Cell, reader: RunReader) -> list[Played]:
    row, column = plan.experiment.place(cell.arm, cell.column)
    elsewhere = {
        f"{world_name(other, config)}:{config.environment.evaluation_split}": (other, config)
        for other, config in cell.elsewhere
    }
    by_split: dict[str, list[Evaluation]] = {}
    for evaluation in sorted(reader.records(Evaluation), key=lambda e: (e.step, e.round)):
        by_split.setdefault(evaluation.split, []).append(evaluation)
    measured = _of_scenarios if cell.metric == "sgc" else _of_tasks
    found = []
    if reported := by_split.pop(cell.reports, ()):
        found.append(Played(cell, row, column, cell.reports, True, cell.config, tuple(map(measured, reported))))
    if cell.reports != cell.config.environment.evaluation_split:  # that one is another column's
        by_split.pop(cell.config.environment.evaluation_split, None)
    for split, evaluated in by_split.items():
        if split in elsewhere:
            other, config = elsewhere[split]
            found.append(Played(cell, row, other, config.environment.evaluation_split, True, config, tuple(evaluated)))
        elif split in cell.splits:  # others were asked for by another experiment that has the same run
            found.append(Played(cell, row, column, split, False, cell.config, tuple(map(measured, evaluated))))
    return found


def _of_tasks(evaluation: Evaluation) -> Evaluation:
    return evaluation


def _of_scenarios(evaluation: Evaluation) -> Evaluation:
    """The same with scenarios in place of tasks."""
    outcomes = {scenario: float(solved) for scenario, solved in by_scenario(evaluation.outcomes).items()}
    score, stderr = pass_rate(outcomes.values())
    return replace(evaluation, outcomes=outcomes, score=score, stderr=stderr, tasks=len(outcomes))


def _measured(evaluation: Evaluation) -> dict[str, Any]:
    return {name: getattr(evaluation, name) for name in _ALSO_OF_STEPS}
