"""Every kind of record survives the way to JSON and back, and a field that does not belong is refused."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from coevolve_lab import records as r

TASK = r.Task("t", "bfcl", ("do it", "then that"), {"files": {"a": ["x", 1]}}, (("ls()", "pwd()"), ("cd(folder='a')",)))
STEP = r.Step(1, "[ls()]", "a\x00b", ("ls",), True, (1, 2), (-0.5, -0.25), (3,))
SAMPLES: list[Any] = [
    TASK,
    r.Trajectory("j", "t", "g", 3, 1, 2, 0.5, "completed", (STEP, STEP), (7, 8), 0.9, 1.5, "train", "no"),
    r.Signal("s", "rare", "j", "t", "g", 1, 2, 0.0, ("ls", "cd"), "seen once"),
    r.ExplorationContext(
        "c", "boundary", 1, {"a": 1}, "s", None, "sum", "why", "how", ("ls",), ("try",), ("not",), "scripted"
    ),
    r.Triplet("p", "c", "x", 0, "[ls()]", "a", False, 1, ("ls",)),
    r.TaskDraft("d", "c", "x", "bfcl", ("do it",), {"a": None}, (("ls()",),), 1, "feedback", "scripted"),
    r.Verdict("v", "d", "accepted", "solved", 1, "fine", 1.0, 0.25, TASK),
    r.Verdict("w", "d", "discarded", "leak", 1),
    r.Review("b", "d", "edit", 1, "clearer", "ann", ("do it", "now"), (("ls()",), ("pwd()", "ls()")), 1.7e9),
    r.Judgement("o", "d", 1, None, "no answer", 0.5, "qwen"),
    r.ModelCall("m", 1, "reflect", "s", "qwen", "cut", 12, 34, 0.5, 1.5, 2, True, "too long"),
    r.Update(1, 1, 1, 0.5, 0.1, 0.0, 0.0, 1.0, 0.0, 0.3, 1e-6, 4, 1, 1, 0, 16, 99, 50, 1.5),
    r.Evaluation("e", "test", 1, 1, 10, 0.5, 0.05, 2, {"t": 1.0}, 3.0, {"partial_score": 0.6}),
    r.StageCost(1, "rollout", 1.5, 4, 100, 2),
]


def test_every_kind_has_a_sample() -> None:
    assert {type(sample) for sample in SAMPLES} == set(r.RECORDS)


@pytest.mark.parametrize("record", SAMPLES, ids=lambda record: type(record).__name__)
def test_to_json_and_back(record: Any) -> None:
    plain = json.loads(json.dumps(r.to_dict(record)))
    assert r.from_dict(type(record), plain) == record


@pytest.mark.parametrize("record", SAMPLES, ids=lambda record: type(record).__name__)
def test_records_are_frozen(record: Any) -> None:
    field = dataclasses.fields(record)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(record, field, None)


def test_fields_that_do_not_belong_or_are_missing() -> None:
    row = r.to_dict(TASK)
    with pytest.raises(TypeError, match="colour"):
        r.from_dict(r.Task, {**row, "colour": "red"})
    del row["turns"]
    with pytest.raises(TypeError, match="turns"):
        r.from_dict(r.Task, row)


def test_tools_of_a_trajectory_are_in_order() -> None:
    steps = (dataclasses.replace(STEP, tools=("a", "b")), dataclasses.replace(STEP, tools=()), STEP)
    assert dataclasses.replace(SAMPLES[1], steps=steps).tools == ("a", "b", "ls")
