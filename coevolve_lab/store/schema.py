"""What each record class looks like as a table, and the exact way there and back.

One table per record class, one row per record, columns named like its fields. Mappings and nested records are compact
JSON text (DuckDB reads it with ``->>``), tuples are list columns, token ids are 32-bit. A trajectory's steps are rows
of a table of their own, ``steps``, so that SQL can count and filter actions. Columns that only repeat what others say
(``derived``) make common SQL short and are left out on the way back.
"""

from __future__ import annotations

import json
import operator
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar

import polars as pl

from coevolve_lab import records as rows
from coevolve_lab.errors import StoreError

R = TypeVar("R")

TABLE_NAMES: dict[type, str] = {
    rows.Task: "tasks",
    rows.Trajectory: "trajectories",
    rows.Signal: "signals",
    rows.ExplorationContext: "contexts",
    rows.Triplet: "triplets",
    rows.TaskDraft: "drafts",
    rows.Verdict: "verdicts",
    rows.Review: "reviews",
    rows.Judgement: "judgements",
    rows.ModelCall: "model_calls",
    rows.Update: "updates",
    rows.Evaluation: "evaluations",
    rows.StageCost: "stage_costs",
}
STEPS = "steps"


@dataclass(frozen=True)
class Column:
    """encode: a field's value -> what polars stores; decode: the inverse. derived: not a field of the record."""

    dtype: Any
    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]
    derived: bool = False


@cache
def tables() -> Mapping[str, Mapping[str, Any]]:
    """Polars schema of every table by name, in the order of ``records.RECORDS``."""
    names: dict[str, dict[str, Any]] = {}
    for kind in rows.RECORDS:
        names[TABLE_NAMES[kind]] = {name: column.dtype for name, column in _columns(kind).items()}
        if kind is rows.Trajectory:
            names[STEPS] = {name: column.dtype for name, column in _step_columns().items()}
    return names


def table_of(kind: type) -> str:
    """Table of a record class. Raises StoreError for anything else."""
    try:
        return TABLE_NAMES[kind]
    except KeyError:
        known = ", ".join(k.__name__ for k in TABLE_NAMES)
        raise StoreError(f"{kind.__name__} is not a record that a run stores; these are: {known}") from None


def to_frames(records: Iterable[Any]) -> dict[str, pl.DataFrame]:
    """Records of any classes, mixed, as one frame per table; order within a class is kept. Steps come first.

    Text that is not valid Unicode (lone surrogates, which a model can write) has those characters replaced by U+FFFD.
    Raises StoreError naming table and column when a value does not fit the record's own type hints.
    """
    by_kind: dict[type, list[Any]] = {}
    for record in records:
        by_kind.setdefault(type(record), []).append(record)
    frames = {}
    for kind, group in by_kind.items():
        name = table_of(kind)
        if kind is rows.Trajectory:
            # Written first, so that whoever sees a trajectory can see its steps.
            steps = [_StepRow(t.id, t.round, i, step) for t in group for i, step in enumerate(t.steps)]
            if steps:
                frames[STEPS] = _frame(STEPS, _step_columns(), steps)
        frames[name] = _frame(name, _columns(kind), group)
    return frames


def from_frame(kind: type[R], frame: pl.DataFrame, steps: pl.DataFrame | None = None) -> list[R]:
    """Records of ``kind`` from rows of its table; trajectories also need the rows of ``steps`` that belong to them.

    A field that is null because its row is older than the field has its default. Raises StoreError when a trajectory
    does not have all of its steps.
    """
    columns = {name: column.decode for name, column in _columns(typing.cast(type, kind)).items() if not column.derived}
    defaults = {f.name: f.default for f in fields(typing.cast(type, kind)) if f.default is not MISSING}
    taken = _steps_by_trajectory(steps) if kind is rows.Trajectory else {}
    out = []
    for row in frame.iter_rows(named=True):
        values = {
            name: defaults[name] if row[name] is None and name in defaults else decode(row[name])
            for name, decode in columns.items()
        }
        if kind is rows.Trajectory:
            values["steps"] = tuple(taken.get(row["id"], ()))
            if len(values["steps"]) != row["n_steps"]:
                raise StoreError(
                    f"trajectory {row['id']} should have {row['n_steps']} steps, found {len(values['steps'])}; "
                    "was it appended twice under the same id?"
                )
        out.append(kind(**values))
    return out


@dataclass(frozen=True)
class _StepRow:
    trajectory_id: str
    round: int
    index: int
    step: rows.Step


def _steps_by_trajectory(frame: pl.DataFrame | None) -> dict[str, list[rows.Step]]:
    taken: dict[str, list[rows.Step]] = {}
    if frame is not None:
        columns = {name: column.decode for name, column in _step_columns().items() if not column.derived}
        for row in frame.sort("trajectory_id", "index").iter_rows(named=True):
            step = rows.Step(**{name: decode(row[name]) for name, decode in columns.items()})
            taken.setdefault(row["trajectory_id"], []).append(step)
    return taken


def _frame(table: str, columns: Mapping[str, Column], group: Sequence[Any]) -> pl.DataFrame:
    series = []
    for name, column in columns.items():
        source: Callable[[Any], Any] = (lambda r: r) if column.derived else operator.attrgetter(name)
        if table == STEPS and not column.derived:
            source = operator.attrgetter(f"step.{name}")
        try:
            values = [column.encode(source(record)) for record in group]
            series.append(pl.Series(name, _valid_unicode(values), dtype=column.dtype, strict=True))
        except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError) as error:
            raise StoreError(f"a value of {table}.{name} does not fit {column.dtype}: {error}") from error
    return pl.DataFrame(series)


def _valid_unicode(value: Any) -> Any:
    """``value`` with lone surrogates replaced. UTF-8, and so Parquet and DuckDB, cannot hold them."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in value)
    elif isinstance(value, list) and value and not isinstance(value[0], int | float):
        return [_valid_unicode(v) for v in value]
    return value


@cache
def _columns(kind: type) -> dict[str, Column]:
    hints = typing.get_type_hints(kind)
    columns = {f.name: _column(hints[f.name]) for f in fields(kind) if hints[f.name] != tuple[rows.Step, ...]}
    if kind is rows.Trajectory:
        columns |= {
            "tools": Column(pl.List(pl.String), lambda t: list(t.tools), list, derived=True),
            "n_steps": Column(pl.Int64, lambda t: len(t.steps), int, derived=True),
            "n_tokens": Column(pl.Int64, lambda t: sum(len(s.token_ids) for s in t.steps), int, derived=True),
        }
    elif kind is rows.Task or kind is rows.TaskDraft:
        columns["n_calls"] = Column(pl.Int64, lambda t: sum(map(len, t.solution)), int, derived=True)
    elif kind is rows.Verdict:
        columns["task_id"] = Column(pl.String, lambda v: v.task.id if v.task else None, str, derived=True)
    return columns


@cache
def _step_columns() -> dict[str, Column]:
    own = {
        "trajectory_id": Column(pl.String, lambda s: s.trajectory_id, str, derived=True),
        "round": Column(pl.Int64, lambda s: s.round, int, derived=True),
        "index": Column(pl.Int64, lambda s: s.index, int, derived=True),
    }
    tokens = Column(pl.Int64, lambda s: len(s.step.token_ids), int, derived=True)
    return own | _columns(rows.Step) | {"n_tokens": tokens}


def _column(hint: Any) -> Column:
    """The column of a field, from its type hint. Raises TypeError for a hint that has no column form yet."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType or origin is typing.Union:
        inner = _column(next(a for a in arguments if a is not type(None)))
        return Column(inner.dtype, _unless_none(inner.encode), _unless_none(inner.decode))
    if origin is typing.Literal or hint is str:
        return Column(pl.String, _text, str)
    if hint is bool:
        return Column(pl.Boolean, bool, bool)
    if hint is int:
        return Column(pl.Int64, operator.index, int)
    if hint is float:
        return Column(pl.Float64, float, float)
    if hint == tuple[int, ...]:
        return Column(pl.List(pl.Int32), lambda v: list(map(operator.index, v)), tuple)
    if hint == tuple[float, ...]:
        return Column(pl.List(pl.Float64), lambda v: list(map(float, v)), tuple)
    if hint == tuple[str, ...]:
        return Column(pl.List(pl.String), lambda v: list(map(_text, v)), tuple)
    if hint == tuple[tuple[str, ...], ...]:
        nested = pl.List(pl.List(pl.String))
        return Column(nested, lambda v: [list(map(_text, u)) for u in v], lambda v: tuple(map(tuple, v)))
    if is_dataclass(hint):
        kind = typing.cast(type, hint)
        return Column(pl.String, _json, lambda v: rows.from_dict(kind, json.loads(v)))
    if origin is Mapping:
        return Column(pl.String, _json, json.loads)
    raise TypeError(f"no column form for {hint}")


def _json(value: Any) -> str:
    return json.dumps(rows.to_dict(value), ensure_ascii=False, separators=(",", ":"))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, got {type(value).__name__} {value!r}")
    return value


def _unless_none(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else function(value)
