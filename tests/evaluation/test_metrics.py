from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest

from coevolve_lab.evaluation import cross_comparison, pass_at_k, pass_rate, sgc, tgc

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "vectors.json").read_text())["appworld"]


def test_goal_completion_matches_the_vectors() -> None:
    for case in VECTORS:
        assert tgc(case["outcomes"]) == pytest.approx(case["tgc"], abs=1e-9)
        assert sgc(case["outcomes"]) == pytest.approx(case["sgc"], abs=1e-9)


def test_the_scenario_is_the_id_up_to_its_last_underscore() -> None:
    assert sgc({"a_b_1": True, "a_b_2": True, "a_c_1": False, "alone": True}) == pytest.approx(200 / 3)


def test_partial_scores_are_failures_and_no_outcomes_an_error() -> None:
    assert tgc({"a_1": 0.9, "a_2": np.bool_(True), "b_1": 1, "b_2": 0}) == 50.0
    for metric in (tgc, sgc):
        with pytest.raises(ValueError, match="nothing has been evaluated"):
            metric({})


def test_pass_rate_and_its_standard_error() -> None:
    mean, error = pass_rate([1, 0, 0, 1, 0])
    assert mean == pytest.approx(0.4)
    assert error == pytest.approx(np.std([1, 0, 0, 1, 0], ddof=1) / math.sqrt(5))
    assert pass_rate([0.5]) == (0.5, 0.0)
    with pytest.raises(ValueError, match="at least one"):
        pass_rate([])


@pytest.mark.parametrize(("samples", "solved", "k"), [(5, 2, 1), (5, 2, 3), (5, 2, 4), (6, 0, 2), (4, 4, 1)])
def test_pass_at_k_is_the_share_of_k_subsets_with_a_success(samples: int, solved: int, k: int) -> None:
    subsets = list(itertools.combinations([True] * solved + [False] * (samples - solved), k))
    assert pass_at_k(samples, solved, k) == pytest.approx(sum(any(s) for s in subsets) / len(subsets))
    with pytest.raises(ValueError, match="samples"):
        pass_at_k(samples, solved, samples + 1)


def test_cross_comparison_shares() -> None:
    before = {"a": True, "b": True, "c": False, "d": False}
    after = {"a": True, "b": False, "c": True, "d": False}
    assert set(cross_comparison(before, after).values()) == {25.0}
    assert cross_comparison(before, before)["both_correct"] == 50.0
    assert cross_comparison(before, {**before, "c": True})["only_other_correct"] == 25.0
    assert cross_comparison({**before, "c": True}, before)["only_baseline_correct"] == 25.0
    with pytest.raises(ValueError, match="differ in 1 tasks"):
        cross_comparison(before, {"a": True, "b": True, "c": True})
