"""What a comparison of runs shows, read from their folders: differing settings, shared rounds, curves, evaluations."""

from __future__ import annotations

import filecmp
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from coevolve_lab.store import RunReader, quoted
from coevolve_lab.store.run_folder import Manifest, RunFolder
from coevolve_lab.widgets.figure import MOST_POINTS
from coevolve_lab.widgets.progress_queries import EVALUATIONS

MOST_ROUNDS = 200  # that can still be told apart in a panel; more share a point
_ABSENT = object()
_STEP = f"step // greatest(1, (max(step) over () + {MOST_POINTS - 1}) // {MOST_POINTS})"
_UPDATES = f"""
    with u as (select *, {_STEP} as place from updates)
    select max(step) as step, avg(reward) as reward,
           sum(groups_all_failed + groups_all_solved) / greatest(sum(groups), 1) as flat
    from u group by place order by step"""
_SIGNALS = """
    select round, kind, n / least({width}, {last} + 1 - round) as n from
        (select round // {width} * {width} as round, kind, count(*) as n from signals group by all) order by all"""
_SIZE = """
    select round, sum(n) over (order by round) as size from
        (select round // {width} * {width} as round, count(*) as n from tasks group by all) order by round"""
_SECONDS = """
    select round, sum(n) over (order by round) as seconds from
        (select round // {width} * {width} as round, sum(seconds) as n from stage_costs where round > 0 group by all)
    order by round"""


@dataclass(frozen=True)
class Side:
    """One of the runs that are compared; every frame has at most some thousand rows."""

    label: str
    reader: RunReader
    committed: int | None
    updates: pl.DataFrame  # step, reward, flat
    evaluations: pl.DataFrame  # step, score, stderr
    signals: pl.DataFrame  # round, kind, n
    size: pl.DataFrame  # round, size: tasks in D_t after it
    seconds: pl.DataFrame  # round, seconds: of all stages since round 1


@dataclass(frozen=True)
class Shared:
    """History that two runs have in common: up to which round, and up to which training step."""

    round: int
    step: int


@dataclass(frozen=True)
class Scored:
    """One evaluation with its outcomes by task id."""

    round: int
    step: int
    score: float
    stderr: float
    outcomes: Mapping[str, float]


def sides(readers: Mapping[str, RunReader], split: str | None) -> list[Side]:
    """Read the runs. split: of the evaluations; None shows none. Rounds are binned alike in all."""
    last = {
        label: int(reader.sql("select coalesce(max(round), 0) as n from stage_costs")["n"][0])
        for label, reader in readers.items()
    }
    width = (max(last.values()) + MOST_ROUNDS) // MOST_ROUNDS
    chosen = "null" if split is None else quoted(split)
    return [
        Side(
            label,
            reader,
            reader.committed_round,
            reader.sql(_UPDATES),
            reader.sql(EVALUATIONS.format(split=chosen, points=MOST_POINTS)),
            reader.sql(_SIGNALS.format(width=width, last=last[label])),
            reader.sql(_SIZE.format(width=width)),
            reader.sql(_SECONDS.format(width=width)),
        )
        for label, reader in readers.items()
    ]


def labels(paths: Sequence[Path]) -> list[str]:
    """Folder names, with as many of the folders above as it takes to tell them apart."""
    for depth in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.parts[-depth:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    raise ValueError(f"{paths[0]} was given twice; give two different runs")


def config_differences(configs: Sequence[Mapping[str, Any]], at: str = "") -> list[tuple[str, ...]]:
    """(key, its value in each config) for every key that is not the same in all; keys of sections joined by dots."""
    found: list[tuple[str, ...]] = []
    for key in dict.fromkeys(key for config in configs for key in config):
        values = [config.get(key, _ABSENT) for config in configs]
        if all(isinstance(value, Mapping) for value in values):
            found += config_differences(values, f"{at}{key}.")
        elif any(value != values[0] for value in values):
            found.append((f"{at}{key}", *("(absent)" if v is _ABSENT else json.dumps(v) for v in values)))
    return found


def shared_history(first: RunReader, other: RunReader) -> Shared | None:
    """Up to where two runs are one: the rounds whose files have the same content in both; None if there are none.

    The measured seconds of a round are like a fingerprint: they agree in a fork and in a copy, and never in two runs
    that did the same. What was evaluated afterwards, in a round that was committed again, does not count.
    """
    last = None
    one, two = first.manifests(), other.manifests()
    for round in sorted(one.keys() & two.keys()):
        if not _same_files(_first_parts(first, one[round]), _first_parts(other, two[round])):
            break
        last = round
    if last is None:
        return None
    steps = first.sql(f"select coalesce(max(step), 0) as n from updates where round <= {last}")
    return Shared(last, int(steps["n"][0]))


def common_splits(readers: Sequence[RunReader]) -> list[str]:
    """Splits that all have evaluated, the one that their configs name first."""
    each = [set(reader.sql("select distinct split from evaluations")["split"]) for reader in readers]
    usual = str(readers[0].config["environment"]["evaluation_split"])
    return sorted(set.intersection(*each), key=lambda split: (split != usual, split))


def common_steps(readers: Sequence[RunReader], split: str) -> list[int]:
    """Training steps after which all evaluated the split, latest first."""
    query = f"select distinct step from evaluations where split = {quoted(split)}"
    return sorted(set.intersection(*(set(reader.sql(query)["step"]) for reader in readers)), reverse=True)


def scored(reader: RunReader, split: str, step: int | None = None) -> Scored:
    """The last evaluation of a split, or the last one after ``step`` training steps. There must be one."""
    where = "" if step is None else f" and step = {step}"
    row = reader.sql(
        f"select round, step, score, stderr, outcomes from evaluations where split = {quoted(split)}{where} "
        "order by step desc, round desc, length(id) desc, id desc limit 1"
    ).row(0, named=True)
    return Scored(**{**row, "outcomes": json.loads(row["outcomes"])})


def tools_of(reader: RunReader, step: int, tasks: Sequence[str]) -> dict[str, list[str]]:
    """What the run called for these tasks, by task id, when it was evaluated after ``step``."""
    if not tasks:
        return {}
    found = reader.sql(
        f"select task_id, any_value(tools) as tools from trajectories where purpose = 'evaluate' and step = {step} "
        f"and task_id in ({', '.join(map(quoted, tasks))}) group by all"
    )
    return dict(found.iter_rows())


def _first_parts(reader: RunReader, manifest: Manifest) -> dict[str, Path]:
    """The file of measured seconds that a round was first committed with; of all tables when it has none."""
    folder = RunFolder(reader.run_dir).tables
    tables = ["stage_costs"] if "stage_costs" in manifest.parts else sorted(manifest.parts)
    return {table: folder / table / manifest.parts[table][0].file for table in tables}


def _same_files(first: Mapping[str, Path], other: Mapping[str, Path]) -> bool:
    return first.keys() == other.keys() and all(
        path.samefile(other[table]) or filecmp.cmp(path, other[table], shallow=False) for table, path in first.items()
    )
