"""Differences of two methods over paired seeds."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from coevolve_lab.evaluation.paired_seeds import gain, sign_flip

TASKS = [f"t{i}" for i in range(40)]


def outcomes(shares: dict[int, float], shift: int = 0) -> dict[int, dict[str, float]]:
    """By seed: the first so many of the tasks are solved."""
    return {
        seed: {task: float((i + shift) % len(TASKS) < share * len(TASKS)) for i, task in enumerate(TASKS)}
        for seed, share in shares.items()
    }


FIRST = outcomes({0: 0.2, 1: 0.3, 2: 0.1, 7: 0.9})
OTHER = outcomes({0: 0.3, 1: 0.5, 2: 0.4, 8: 0.9})


def test_seeds_that_both_have_are_compared() -> None:
    found = gain(FIRST, OTHER, draws=500)
    differences = [0.1, 0.2, 0.3]
    assert (found.seeds, found.tasks) == (3, 40)
    assert list(found.by_seed.values()) == pytest.approx(differences)
    assert found.mean == pytest.approx(0.2)
    assert found.stderr == pytest.approx(np.std(differences, ddof=1) / math.sqrt(3))
    assert found.low < found.mean < found.high
    assert found.p_value == pytest.approx(2 / 8)  # of the eight ways to turn three signs, two are as extreme


def test_turned_round_only_the_sign_changes() -> None:
    one, two = gain(FIRST, OTHER, draws=500), gain(OTHER, FIRST, draws=500)
    assert (one.mean, one.p_value, one.stderr) == pytest.approx((-two.mean, two.p_value, two.stderr))
    assert (one.low, one.high) == pytest.approx((-two.high, -two.low))


def test_the_interval_is_the_same_every_time_and_moves_with_the_seed() -> None:
    one, again, other = (gain(FIRST, OTHER, draws=500, seed=seed) for seed in (0, 0, 1))
    assert (one.low, one.high) == (again.low, again.high)
    assert (one.low, one.high) != (other.low, other.high)


def test_equal_runs_differ_by_nothing() -> None:
    found = gain(FIRST, FIRST, draws=100)
    assert (found.mean, found.low, found.high, found.p_value) == (0, 0, 0, 1)


def test_one_seed_has_an_interval_over_tasks_and_no_test() -> None:
    found = gain({0: FIRST[0]}, {0: OTHER[0]}, draws=4000)
    assert (found.stderr, found.p_value) == (None, None)
    # 4 of 40 tasks differ, all the same way: the resampled mean has the standard deviation sqrt(.1 * .9 / 40)
    assert found.high - found.low == pytest.approx(2 * 1.96 * math.sqrt(0.1 * 0.9 / 40), rel=0.2)


def test_luck_of_the_tasks_and_of_the_seeds_both_widen_the_interval() -> None:
    alike = gain(outcomes({s: 0.2 for s in range(6)}), outcomes({s: 0.4 for s in range(6)}), draws=2000)
    uneven = gain(outcomes({s: 0.2 for s in range(6)}), outcomes({s: 0.1 + 0.12 * s for s in range(6)}), draws=2000)
    assert alike.stderr == pytest.approx(0, abs=1e-12)
    assert alike.high - alike.low > 0.1  # the same tasks for all seeds: six seeds do not make them 240
    assert uneven.high - uneven.low > 1.2 * (alike.high - alike.low)


def test_seeds_with_tasks_of_their_own_are_drawn_within() -> None:
    def own(runs: dict[int, dict[str, float]]) -> dict[int, dict[str, float]]:
        return {seed: {f"{seed}-{task}": score for task, score in run.items()} for seed, run in runs.items()}

    seeds = dict.fromkeys(range(6), 0.2), dict.fromkeys(range(6), 0.4)
    crossed = gain(outcomes(seeds[0]), outcomes(seeds[1]), draws=2000)
    within = gain(own(outcomes(seeds[0])), own(outcomes(seeds[1])), draws=2000)
    assert within.mean == crossed.mean
    assert within.high - within.low < 0.7 * (crossed.high - crossed.low)  # 240 tasks are more than 40


def test_partial_scores_are_failures() -> None:
    assert gain({0: {"a": 0.9, "b": 1.0}}, {0: {"a": 1.0, "b": 0.9}}, draws=10).mean == 0


@pytest.mark.parametrize("differences", [[0.1, 0.2, -0.1], [0.0, 0.0], [0.3, -0.3, 0.1, 0.2]])
def test_the_sign_flip_test_goes_through_all_signs(differences: list[float]) -> None:
    flips = [
        abs(sum(s * d for s, d in zip(signs, differences, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    as_far = sum(value >= abs(sum(differences)) - 1e-12 for value in flips) / len(flips)
    assert sign_flip(np.array(differences)) == pytest.approx(as_far)


def test_many_seeds_are_drawn_from_and_never_give_zero() -> None:
    assert 0 < sign_flip(np.full(30, 0.1)) < 1e-4


def test_without_common_seeds_or_tasks_there_is_no_comparison() -> None:
    with pytest.raises(ValueError, match="no seed in common"):
        gain({0: {"a": 1.0}}, {1: {"a": 1.0}})
    with pytest.raises(ValueError, match="seed 3 have no task in common"):
        gain({3: {"a": 1.0}}, {3: {"b": 1.0}})
