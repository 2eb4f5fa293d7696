from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coevolve_lab.signals import Boundary, boundary_mask, find_signals

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "vectors.json").read_text())["boundary"]


def test_mask_matches_the_vectors() -> None:
    for case in VECTORS:
        assert boundary_mask(case["scores"], case["threshold"]).tolist() == case["expected"]


def test_both_sides_are_strict() -> None:
    assert boundary_mask([0.5, 0.0]).tolist() == [False, False]
    assert boundary_mask([0.5, 1.0]).tolist() == [False, False]
    assert boundary_mask([0.5, 0.499, 0.501]).tolist() == [True, True, True]
    assert boundary_mask([1.0]).tolist() == [False]
    assert boundary_mask([]).tolist() == []


def test_all_of_a_mixed_group_is_marked_and_no_other_group(visit: Callable[..., Any]) -> None:
    batch = visit(0, "mixed", [1.0, 0.0, 0.5]) + visit(0, "solved", [1.0, 1.0]) + visit(0, "failed", [0.0, 0.0])
    signals = find_signals([Boundary()], batch)
    assert [s.trajectory_id for s in signals] == ["s0-mixed-0", "s0-mixed-1", "s0-mixed-2"]
    assert signals[0].detail == "1 of 3 solved"
