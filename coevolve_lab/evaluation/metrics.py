"""Scores of a finished evaluation: plain numbers from plain mappings, numpy-free and torch-free."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from statistics import fmean, stdev


def tgc(outcomes: Mapping[str, float]) -> float:
    """Task Goal Completion: percent of tasks that are solved (AppWorld's metric).

    outcomes: success by task id; a partial score counts as failure. Raises ValueError without tasks.
    """
    return 100 * fmean(_solved(outcomes).values())


def sgc(outcomes: Mapping[str, float]) -> float:
    """Scenario Goal Completion: percent of scenarios solved (``by_scenario``). Raises ValueError without tasks."""
    return 100 * fmean(by_scenario(outcomes).values())


def by_scenario(outcomes: Mapping[str, float]) -> dict[str, bool]:
    """Whether *all* evaluated tasks of a scenario are solved, by scenario: a task's id up to the last "_".

    outcomes: as for ``tgc``. Raises ValueError without tasks.
    """
    scenarios: dict[str, bool] = {}
    for task, solved in _solved(outcomes).items():
        scenario = task.rsplit("_", 1)[0]
        scenarios[scenario] = scenarios.get(scenario, True) and solved
    return scenarios


def pass_rate(scores: Iterable[float]) -> tuple[float, float]:
    """Mean of the scores and its standard error (sample standard deviation over sqrt(n); 0 for one score)."""
    values = [float(s) for s in scores]
    if not values:
        raise ValueError("a pass rate needs at least one score")
    return fmean(values), stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0


def pass_at_k(samples: int, solved: int, k: int) -> float:
    """Unbiased chance that one of k samples solves a task of which ``solved`` of ``samples`` did (Chen et al. 2021)."""
    if not 0 <= solved <= samples or not 1 <= k <= samples:
        raise ValueError(f"need 0 <= solved <= samples and 1 <= k <= samples, not {solved=}, {samples=}, {k=}")
    return 1.0 - math.comb(samples - solved, k) / math.comb(samples, k)


def cross_comparison(baseline: Mapping[str, bool], other: Mapping[str, bool]) -> dict[str, float]:
    """Percent of tasks by who solves them: both, only the baseline, only the other, neither (table 8).

    Both must have been evaluated on the same tasks: raises ValueError otherwise.
    """
    before, after = _solved(baseline), _solved(other)
    if before.keys() != after.keys():
        raise ValueError(f"the two evaluations differ in {len(before.keys() ^ after.keys())} tasks")
    names = {
        (True, True): "both_correct",
        (True, False): "only_baseline_correct",
        (False, True): "only_other_correct",
        (False, False): "both_wrong",
    }
    counts = Counter(names[solved, after[task]] for task, solved in before.items())
    return {name: 100 * counts[name] / len(before) for name in names.values()}


def _solved(outcomes: Mapping[str, float]) -> dict[str, bool]:
    if not outcomes:
        raise ValueError("no outcomes: nothing has been evaluated")
    return {str(task): float(value) >= 1.0 for task, value in outcomes.items()}
