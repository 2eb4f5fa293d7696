"""Two runs to export: a toy run that was really played, and BFCL records of every awkward kind in a run folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from coevolve_lab import CoEvolve
from coevolve_lab import records as r
from coevolve_lab.environments import Environment, make
from coevolve_lab.store import RunReader, RunWriter
from tests.loop_world import new_run, warm_cache  # noqa: F401  (a fixture)


@pytest.fixture(scope="session")
def bfcl() -> Environment:
    return make("bfcl")


@pytest.fixture(scope="module")
def toy_run(tmp_path_factory: pytest.TempPathFactory, warm_cache: Path) -> Iterator[CoEvolve]:  # noqa: F811
    with new_run(tmp_path_factory.mktemp("exchange") / "toy") as run:
        run.rounds(2)
        yield run


@pytest.fixture(scope="module")
def bfcl_reader(tmp_path_factory: pytest.TempPathFactory, bfcl: Environment) -> RunReader:
    """Two tasks of two rounds, one of them with its whole chain; three training and one evaluation trajectory."""
    official, synthetic = bfcl.tasks("test")[0], bfcl.tasks("held_out")[0]
    first = r.Task("task-0", "bfcl", official.turns, official.start, official.solution, origin="seed")
    second = r.Task(
        "task-1", "bfcl", synthetic.turns, synthetic.start, synthetic.solution, "train", "feedback", "d1", 1, "llm:x"
    )
    steps = (
        r.Step(0, "[ls(a=True), pwd()]", '{"a": 1}\n{"b": 2}', ("ls", "pwd"), False, (5, 6), (-0.5, -0.25), (9,)),
        r.Step(0, "[ls(", '{"error": "cannot be read"}', (), True, (7,), (-1.0,), (9,)),
        r.Step(0, "All done.", official.turns[1], (), False, (8,), (-2.0,), (9,)),
        r.Step(1, "[ls(", "", (), True, (1,), (-3.0,), ()),
    )
    records = [
        first,
        r.Trajectory("t0", "task-0", "g0", 1, 1, 1, 1.0, "completed", steps[:3], (1, 2)),
        r.Trajectory("t1", "task-0", "g0", 1, 1, 1, 0.0, "truncated_tokens", steps, (1, 2)),
        r.Signal("s1", "boundary", "t1", "task-0", "g0", 1, 1, 0.0),
        r.ExplorationContext("c1", "boundary", 1, synthetic.start, "s1", "task-0"),
        r.TaskDraft(
            "d1", "c1", "roll", "bfcl", second.turns, second.start, second.solution, 1, "feedback", second.explorer
        ),
        r.Verdict("v1", "d1", "accepted", "solved", 1, similarity=0.25, task=second),
        second,
        r.Trajectory("t2", "task-1", "g1", 2, 2, 2, 0.5, "env_error", (), (1, 2), detail="it broke"),
        r.Trajectory("e0", official.id, "e", 2, 2, 2, 0.0, "completed", steps[2:3], (1, 2), purpose="evaluate"),
    ]
    with RunWriter.create(tmp_path_factory.mktemp("exchange") / "bfcl", {"name": "exchange"}) as writer:
        for round in range(3):
            writer.append([record for record in records if record.round == round])
            writer.commit(round)
        return RunReader(writer.run_dir)
