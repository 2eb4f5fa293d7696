"""Where the runs of an experiment's plan are, from their folders and logs alone; whoever plays them is not asked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import polars as pl

from coevolve_lab.experiments.folders import is_finished
from coevolve_lab.experiments.plan import Cell, Plan, Wanted
from coevolve_lab.store import RunReader, quoted

State = Literal["waiting", "begun", "finished", "failed"]
SCHEMA = {"method": pl.String, "step": pl.Int64, "seed": pl.Int64, "score": pl.Float64}
_LAST_BYTES = 4000  # of a log
_FAILURE = re.compile(r"[\w.]*(?:Error|Exception|Interrupt|Failed)\b")  # how the last line of a failed process begins


@dataclass(frozen=True)
class Seen:
    """One run or start. done: last committed round, None before that; words: last line of a failed one's log.

    A run that was killed left no words: it stands as "begun" where it stopped. scores: (training step, score in [0, 1])
    on the run's own evaluation split, oldest first.
    """

    state: State
    done: int | None
    rounds: int
    words: str = ""
    scores: tuple[tuple[int, float], ...] = ()


class Watch:
    """Looks at a plan's runs; of each, only what was committed since the last look is read."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self._plan, self._folder = plan, folder
        self._readers: dict[str, RunReader] = {}
        self._seen: dict[str, Seen] = {}

    def look(self) -> dict[str, Seen]:
        """What is seen of each run and start by its key."""
        self._seen = {wanted.key: self._one(wanted) for wanted in self._plan.wanted}
        return self._seen

    def _one(self, wanted: Wanted) -> Seen:
        before = self._seen.get(wanted.key)
        if before is not None and before.state == "finished":
            return before
        rounds = wanted.config.rounds if isinstance(wanted, Cell) else 0
        words = _failure(self._folder / f"{wanted.key}.log")
        # asked before the scores are read: what finishes in between is read once more
        state: State = "finished" if is_finished(wanted, self._folder) else "failed" if words else "begun"
        if not (self._folder / wanted.key / "config.json").is_file():
            return Seen("failed" if words else "waiting", None, rounds, words)
        if wanted.key not in self._readers:
            self._readers[wanted.key] = RunReader(self._folder / wanted.key)
        reader = self._readers[wanted.key]
        done = reader.committed_round
        if before is not None and before.done == done and state != "finished":
            return Seen(state, done, rounds, words, before.scores)
        scores = _scores(reader) if isinstance(wanted, Cell) else ()
        return Seen(state, done, rounds, "" if state == "finished" else words, scores)


def curves(plan: Plan, seen: dict[str, Seen]) -> pl.DataFrame:
    """All scores so far, unfinished runs included: columns method (``label``), step, seed, score."""
    rows = [
        (label(plan, cell), step, cell.seed, score)
        for cell in plan.cells
        if cell.key in seen
        for step, score in seen[cell.key].scores
    ]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def label(plan: Plan, cell: Cell) -> str:
    """The arm, with the column where there are several."""
    several = len({other.column for other in plan.cells}) > 1
    return f"{cell.arm}, {cell.column}" if several else cell.arm


def _scores(reader: RunReader) -> tuple[tuple[int, float], ...]:
    split = quoted(reader.config["environment"]["evaluation_split"])
    last = f"select step, arg_max(score, round) as score from evaluations where split = {split} group by step"
    return tuple(reader.sql(f"{last} order by step").iter_rows())


def _failure(log: Path) -> str:
    """The last line of a log if it tells of a failure; warnings and progress are none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _LAST_BYTES))
            lines = file.read().decode("utf-8", errors="replace").strip().splitlines()
    except FileNotFoundError:
        return ""
    return lines[-1] if lines and _FAILURE.match(lines[-1]) else ""
