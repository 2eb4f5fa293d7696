"""Two evaluations task by task."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from coevolve_lab.evaluation import cross_comparison
from coevolve_lab.evaluation.paired import mcnemar, paired

FIRST = {"a": 1.0, "b": 1.0, "c": 0.0, "d": 0.0, "e": 0.9, "mine": 1.0}
OTHER = {"a": 1.0, "b": 0.0, "c": 1.0, "d": 0.0, "e": 1.0, "yours": 1.0}


def test_counts_are_of_common_tasks_and_partial_scores_are_failures() -> None:
    seen = paired(FIRST, OTHER)
    assert seen.counts == (1, 1, 2, 1)
    assert (seen.only_first, seen.only_other, seen.tasks) == (("b",), ("c", "e"), 5)
    differences = [0, -1, 1, 0, 1]
    assert seen.difference == pytest.approx(0.2)
    assert seen.stderr == pytest.approx(np.std(differences, ddof=1) / math.sqrt(5))


def test_it_agrees_with_the_percentages_of_table_8() -> None:
    first = {task: score for task, score in FIRST.items() if task != "mine"}
    other = {task: score for task, score in OTHER.items() if task != "yours"}
    percent = cross_comparison(first, other)  # type: ignore[arg-type]
    assert [100 * n / 5 for n in paired(FIRST, OTHER).counts] == [
        percent[name] for name in ("both_correct", "only_baseline_correct", "only_other_correct", "both_wrong")
    ]


def test_turned_round_only_the_sign_changes() -> None:
    one, two = paired(FIRST, OTHER), paired(OTHER, FIRST)
    assert (one.difference, one.stderr, one.p_value) == pytest.approx((-two.difference, two.stderr, two.p_value))
    assert one.only_first == two.only_other


@pytest.mark.parametrize(("only_first", "only_other"), [(0, 0), (1, 0), (3, 3), (5, 1), (0, 8), (4, 7)])
def test_mcnemar_is_the_share_of_coin_throws_at_least_as_uneven(only_first: int, only_other: int) -> None:
    throws = list(itertools.product([0, 1], repeat=only_first + only_other))
    uneven = abs(only_first - only_other)
    as_uneven = sum(abs(2 * sum(throw) - len(throw)) >= uneven for throw in throws)
    assert mcnemar(only_first, only_other) == pytest.approx(as_uneven / len(throws))


def test_many_tasks_do_not_overflow() -> None:
    assert mcnemar(2000, 2000) == 1.0
    assert 0 < mcnemar(1900, 2100) < 0.01


def test_without_a_common_task_there_is_no_comparison() -> None:
    with pytest.raises(ValueError, match="no task in common"):
        paired({"a": 1.0}, {"b": 1.0})
    with pytest.raises(ValueError, match="no task in common"):
        paired({}, {})
