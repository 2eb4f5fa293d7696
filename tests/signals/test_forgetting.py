from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coevolve_lab.signals import Forgetting, find_signals, forgetting_mask

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "vectors.json").read_text())["forgetting"]
Visit = Callable[..., Any]


def test_mask_matches_the_vectors() -> None:
    for case in VECTORS:
        made = forgetting_mask(case["scores"], case["history"], case["window"], case["threshold"])
        assert made.dtype == np.bool_
        assert made.tolist() == case["expected"]


def test_edges_of_the_rule() -> None:
    assert forgetting_mask([0.0, 0.49], []).tolist() == [False, False]
    assert forgetting_mask([0.5, 0.499], [0.5]).tolist() == [False, True]
    assert forgetting_mask([0.0], [0.499]).tolist() == [False]
    assert forgetting_mask([0.0], [1.0, 0.0], window=1).tolist() == [False]
    assert forgetting_mask([0.0], [1.0, 0.0], window=2).tolist() == [True]
    assert forgetting_mask([], [1.0]).tolist() == []
    assert forgetting_mask(np.array([0.0]), (1.0,)).tolist() == [True]
    with pytest.raises(ValueError, match="window"):
        forgetting_mask([0.0], [1.0], window=0)


def test_the_window_holds_earlier_visits_only(visit: Visit) -> None:
    detector = Forgetting()
    assert find_signals([detector], visit(0, "a", [1.0, 0.0])) == []
    assert [s.trajectory_id for s in find_signals([detector], visit(3, "a", [1.0, 0.0]))] == ["s3-a-1"]
    assert find_signals([detector], visit(3, "b", [0.0, 0.0])) == []


def test_a_visit_enters_as_the_mean_of_its_group(visit: Visit) -> None:
    detector = Forgetting()
    find_signals([detector], visit(0, "low", [1.0, 0.0, 0.0, 0.0]) + visit(0, "even", [1.0, 0.0, 1.0, 0.0]))
    signals = find_signals([detector], visit(1, "low", [0.0]) + visit(1, "even", [0.0]))
    assert [s.task_id for s in signals] == ["even"]


def test_visits_beyond_the_window_are_forgotten_themselves(visit: Visit) -> None:
    detector = Forgetting(window=2)
    found = [find_signals([detector], visit(step, "a", [float(step == 0)])) for step in range(4)]
    assert [len(signals) for signals in found] == [0, 1, 1, 0]
    assert len(detector.state()["visits"]["a"]) <= 3
