"""Records with every kind of field filled, for the store's tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coevolve_lab import records as r


def example_records(i: int = 0, round: int = 0) -> list[Any]:
    """One record of each class, with ids that hold ``i`` and values that are awkward to store."""
    start = {"files": {"a.txt": ["x", 1, 0.1, None, True]}, "näme": 'it\'s "so"\n\0'}
    task = r.Task(
        f"task{i}", "bfcl", ("do it", "and then"), start, (("cd('a')", "ls()"), ()), origin="seed", round=round
    )
    steps = tuple(
        r.Step(0, f"act {i}.{n}", "ok", ("cd", "ls")[: n + 1], n == 1, (5, 7, 2**31 - 1), (-0.1, -1e-300, -0.0), (9,))
        for n in range(3)
    )
    return [
        task,
        r.Trajectory(f"t{i}", task.id, f"g{i}", 3, round, 7, 0.1 + 0.2, "completed", steps, (1, 2), 0.9, 1e-7),
        r.Trajectory(f"e{i}", task.id, f"g{i}", 3, round, 7, 0.0, "engine_error", (), detail="no reply"),
        r.Signal(f"s{i}", "rare", f"t{i}", task.id, f"g{i}", round, 7, 0.25, ("cd", "ls")),
        r.ExplorationContext(f"c{i}", "rare", round, start, f"s{i}", task.id, focus_pattern=("cd",)),
        r.ExplorationContext(f"u{i}", "uniform", round, {}),
        r.Triplet(f"x{i}", f"c{i}", "roll", 0, "cd('a')", "", False, round, ("cd",)),
        r.TaskDraft(f"d{i}", f"c{i}", "roll", "bfcl", ("q",), start, (("cd('a')",),), round, "feedback", "scripted"),
        r.Verdict(f"v{i}", f"d{i}", "accepted", "ok", round, similarity=1 / 3, task=task),
        r.Verdict(f"w{i}", f"d{i}", "discarded", "duplicate", round),
        r.Verdict(f"h{i}", f"d{i}", "held", "review", round, task=task),
        r.Review(f"r{i}", f"d{i}", "edit", round, "why", "me", ("q", ""), (("cd('b')",), ()), 1.7e9),
        r.Judgement(f"j{i}", f"d{i}", round, None if i else True, "says so", 0.5, "judge-1"),
        r.ModelCall(f"m{i}", round, "reflect", f"s{i}", "qwen", "cut", 12, 30, 1e-5, 0.7, 3, True, "too long"),
        r.Update(i, round, 4, 0.5, -0.1, 1e-3, 0.0, 2.2, 1e-9, 0.7, 1e-6, 16, 3, 4, 7, 128, 900, 400, 1.5),
        r.Evaluation(f"ev{i}", "test", 4, round, 7, 0.5, 0.03, 2, {"a_1": 1.0, "b_2": 0.1}, 2.5, {"tgc": 50.0}),
        r.StageCost(round, "rollout", 1.25, 128, 5000, 512),
    ]


@pytest.fixture
def make_records() -> Callable[..., list[Any]]:
    return example_records
