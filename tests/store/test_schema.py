from __future__ import annotations

import dataclasses
import math
import struct
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from coevolve_lab import records as r
from coevolve_lab.errors import StoreError
from coevolve_lab.store import schema


def round_trip(kind: type, records: list[Any]) -> list[Any]:
    frames = schema.to_frames(records)
    return schema.from_frame(kind, frames[schema.table_of(kind)], frames.get(schema.STEPS))


@pytest.mark.parametrize("kind", r.RECORDS, ids=lambda k: k.__name__)
def test_every_record_comes_back_as_it_was(kind: type, make_records: Callable[..., list[Any]]) -> None:
    given = [record for i in range(3) for record in make_records(i) if type(record) is kind]
    assert given
    back = round_trip(kind, given)
    assert back == given
    assert [r.to_dict(record) for record in back] == [r.to_dict(record) for record in given]


@pytest.mark.parametrize("value", [-0.0, math.inf, math.nan, 5e-324, 0.1 + 0.2, 1 / 3])
def test_floats_keep_every_bit(value: float, make_records: Callable[..., list[Any]]) -> None:
    update = next(x for x in make_records() if isinstance(x, r.Update))
    evaluation = next(x for x in make_records() if isinstance(x, r.Evaluation))
    (one,) = round_trip(r.Update, [dataclasses.replace(update, kl=value)])
    (two,) = round_trip(r.Evaluation, [dataclasses.replace(evaluation, outcomes={"a": value})])
    assert struct.pack("d", one.kl) == struct.pack("d", value)
    assert struct.pack("d", two.outcomes["a"]) == struct.pack("d", value)


def test_text_that_is_not_unicode_is_stored_with_replacements() -> None:
    step = r.Step(0, "say \ud800 hello", "\udfff", ("a\ud800",))
    trajectory = r.Trajectory("t", "k", "g", 0, 0, 0, 0.0, "parse_error", (step,))
    (back,) = round_trip(r.Trajectory, [trajectory])
    assert back.steps[0].action == "say \ufffd hello"
    assert back.steps[0].tools == ("a\ufffd",)
    (signal,) = round_trip(r.ExplorationContext, [r.ExplorationContext("c", "rare", 0, {"name": "\ud800"})])
    assert signal.start == {"name": "\ufffd"}


@pytest.mark.parametrize(
    ("record", "column"),
    [
        (r.StageCost(0, "rollout", "long"), "seconds"),  # type: ignore[arg-type]
        (r.StageCost(0, None, 1.0), "stage"),  # type: ignore[arg-type]
        (r.StageCost(0.5, "rollout", 1.0), "round"),  # type: ignore[arg-type]
        (r.Task("t", "bfcl", ("q",), {"set": {1}}), "start"),
        (
            r.Trajectory("t", "k", "g", 0, 0, 0, 0.0, "completed", (r.Step(0, "a", "b", token_ids=(2**40,)),)),
            "token_ids",
        ),
    ],
)
def test_a_wrong_value_names_its_column(record: Any, column: str) -> None:
    with pytest.raises(StoreError, match=rf"\.{column} does not fit"):
        schema.to_frames([record])


def test_what_is_no_record_is_refused() -> None:
    with pytest.raises(StoreError, match="dict is not a record"):
        schema.to_frames([{"id": "x"}])


def test_a_trajectory_that_lost_steps_is_noticed(make_records: Callable[..., list[Any]]) -> None:
    frames = schema.to_frames(make_records())
    steps = frames[schema.STEPS].filter(pl.col("index") < 2)
    with pytest.raises(StoreError, match="should have 3 steps, found 2"):
        schema.from_frame(r.Trajectory, frames["trajectories"], steps)


def test_every_table_is_described() -> None:
    assert set(schema.tables()) == {*schema.TABLE_NAMES.values(), schema.STEPS}
    assert set(schema.TABLE_NAMES) == set(r.RECORDS)
    assert schema.tables()["steps"]["token_ids"] == pl.List(pl.Int32)
