from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coevolve_lab.signals import Rare, find_signals, rare_patterns

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "vectors.json").read_text())["rare"]
Visit = Callable[..., Any]
COMMON, SELDOM = ["cd", "ls"], ["mv", "cp"]


def test_patterns_match_the_vectors() -> None:
    for case in VECTORS:
        assert rare_patterns(case["counts"], case["theta"], case["n_min"]) == case["expected"]


def test_edges_of_the_rule() -> None:
    assert rare_patterns({"a": 5, "b": 95}) == []  # exactly 5 % is not below 5 %
    assert rare_patterns({"a": 4, "b": 96}) == ["a"]
    assert rare_patterns({"a": 4, "b": 95}) == []  # N is 99
    assert rare_patterns({}, n_min=0) == rare_patterns({"a": 0}, n_min=0) == []
    assert rare_patterns({("b",): 1, ("a", "b"): 1, ("c",): 98}) == [("a", "b"), ("b",)]


def test_counts_are_trajectories_that_contain_the_pattern(visit: Visit) -> None:
    rare = Rare()
    find_signals([rare], visit(0, "a", [1, 1], [["cd", "ls", "cd", "ls"], COMMON]))
    assert rare.counts == {("cd", "ls"): 2, ("ls", "cd"): 1}


def test_only_earlier_steps_decide_and_a_new_pattern_waits(visit: Visit) -> None:
    rare = Rare(theta=15, n_min=8)
    steps = [visit(step, "a", [1] * 8, [COMMON] * 7 + [SELDOM]) for step in range(3)]
    found = [find_signals([rare], batch) for batch in steps]
    assert [[s.trajectory_id for s in signals] for signals in found] == [[], ["s1-a-7"], ["s2-a-7"]]
    assert found[1][0].pattern == ("mv", "cp")
    assert found[1][0].detail.startswith("1 of 8 patterns")


def test_a_pattern_must_recur(visit: Visit) -> None:
    batches = [visit(step, "a", [1] * 8, [COMMON] * 7 + [SELDOM]) for step in range(4)]
    found = []
    rare = Rare(theta=15, n_min=8, min_trajectories=3)
    for batch in batches:
        found.append(len(find_signals([rare], batch)))
    assert found == [0, 0, 1, 1]


def test_the_rarest_pattern_is_named(visit: Visit) -> None:
    rare = Rare(theta=30, n_min=1, pattern="tool")
    find_signals([rare], visit(0, "a", [1] * 8, [["cd"]] * 5 + [["mv"], ["mv"], ["cp"]]))
    (signal,) = find_signals([rare], visit(1, "a", [1], [["cd", "mv", "cp"]]))
    assert signal.pattern == ("cp",)
    assert "2 rare ones" in signal.detail


def test_trajectories_without_calls_have_no_pattern(visit: Visit) -> None:
    rare = Rare(n_min=0)
    assert find_signals([rare], visit(0, "a", [0, 0])) == []
    assert rare.counts == {}


def test_a_history_of_another_kind_of_pattern_is_left_out(visit: Visit) -> None:
    """A fork may go on with another kind; both counted in one N made everything rare."""
    bigrams = Rare(theta=40, n_min=4)
    find_signals([bigrams], [t for step in range(3) for t in visit(step, "a", [1, 0], [["cd", "ls"], ["ls", "cd"]])])
    tools = Rare(theta=40, n_min=4, pattern="tool")
    tools.load(bigrams.state())
    assert tools.counts == {}
    again = Rare(theta=40, n_min=4)
    again.load(bigrams.state())
    assert again.counts == bigrams.counts != {}


def test_the_kind_is_checked_at_once() -> None:
    with pytest.raises(ValueError, match="trigram"):
        Rare(pattern="trigram")


def test_invented_tools_are_no_rare_patterns() -> None:
    """Calls that failed, of tools that do not exist above all, are neither counted nor marked."""
    from coevolve_lab.records import Step, Trajectory

    def trajectory(number: int, invented: bool) -> Trajectory:
        steps = (Step(0, "[ls()]", "ok", ("ls",)),)
        if invented:
            steps += (Step(0, "[lss()]", "error", ("lss",), failed=True),)
        return Trajectory(f"t{number}", "a", f"g{number}", 0, 0, number, 0.0, "completed", steps)

    detector = Rare(theta=40.0, n_min=4, pattern="tool")
    for number in range(6):
        seen = [trajectory(number, invented=number % 3 == 0)]
        assert detector.detect(seen) == []
        detector.update(seen)
    assert detector.counts == {("ls",): 6}
