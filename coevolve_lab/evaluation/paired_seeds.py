"""How much better one method is than another, when both were run with the same seeds on the same tasks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.95
_DRAWS = 10_000
_EXACT = 16  # seeds up to which all 2^n signs are gone through; beyond, as many are drawn as 16 seeds have
_AT_ONCE = 500  # resamples whose weights are held at a time

Outcomes = Mapping[int, Mapping[str, float]]  # by seed, score by task id


@dataclass(frozen=True)
class Gain:
    """The other method's share of solved tasks minus the first's, in [-1, 1].

    mean: over seeds; stderr: sample standard deviation of the seeds' differences over sqrt(seeds), None for one seed;
    by_seed: those differences. low, high: the bootstrap interval of ``gain``. p_value: exact sign-flip test over seeds,
    two-sided, None for one seed; n seeds cannot give less than 2 / 2^n (5 seeds: 0.0625), however large the gain.
    """

    mean: float
    stderr: float | None
    low: float
    high: float
    p_value: float | None
    by_seed: Mapping[int, float]
    tasks: int

    @property
    def seeds(self) -> int:
        return len(self.by_seed)


def gain(first: Outcomes, other: Outcomes, level: float = LEVEL, draws: int = _DRAWS, seed: int = 0) -> Gain:
    """Compare two methods over the seeds that both have; a task counts as solved only with the full score of 1.

    The interval is a percentile bootstrap of the paired differences: every draw takes seeds with replacement and tasks
    with replacement, for both methods the same ones. Where all seeds have the same tasks, a draw's tasks are the same
    for all its seeds (crossed, Owen 2007: it errs on the wide side); where not, they are drawn within each seed.
    It covers the luck of the seed (D_0, batches, sampling) and of the choice of tasks. It does not cover other worlds,
    models or settings, nor that several comparisons are looked at; and with few seeds it is too narrow for what another
    seed might bring, by about sqrt(n / (n - 1)). With one seed it is about the tasks only. Deterministic under
    ``seed``. Raises ValueError when there is no common seed, or a seed whose two runs have no task in common.
    """
    common = sorted(first.keys() & other.keys())
    if not common:
        raise ValueError("the two methods have no seed in common")
    names = {s: sorted(first[s].keys() & other[s].keys()) for s in common}
    if bare := [s for s in common if not names[s]]:
        raise ValueError(f"the two runs of seed {bare[0]} have no task in common")
    rows = [
        np.array([float(other[s][task] >= 1.0) - float(first[s][task] >= 1.0) for task in names[s]]) for s in common
    ]
    by_seed = np.array([row.mean() for row in rows])
    low, high = np.quantile(_resampled(rows, len({tuple(n) for n in names.values()}) == 1, draws, seed), _ends(level))
    several = len(common) > 1
    return Gain(
        mean=float(by_seed.mean()),
        stderr=float(by_seed.std(ddof=1) / math.sqrt(len(common))) if several else None,
        low=float(low),
        high=float(high),
        p_value=sign_flip(by_seed, seed) if several else None,
        by_seed=dict(zip(common, by_seed.tolist(), strict=True)),
        tasks=max(map(len, rows)),
    )


def sign_flip(differences: NDArray[np.float64], seed: int = 0) -> float:
    """Share of all ways to turn the differences' signs whose mean is at least as far from 0, themselves included.

    What is tested: that each difference is as likely to be as large the other way round. Exact up to 16 differences.
    """
    n = len(differences)
    if n <= _EXACT:
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=n)))
    else:
        drawn = np.random.default_rng(seed).choice((1.0, -1.0), size=(2**_EXACT - 1, n))
        signs = np.vstack([np.ones((1, n)), drawn])
    means = np.abs(signs @ differences)
    return float((means >= means[0] - 1e-12).mean())


def _resampled(rows: list[NDArray[np.float64]], crossed: bool, draws: int, seed: int) -> NDArray[np.float64]:
    rng, n = np.random.default_rng(seed), len(rows)
    means: list[NDArray[np.float64]] = []
    for begun in range(0, draws, _AT_ONCE):
        count = min(_AT_ONCE, draws - begun)
        seeds = rng.multinomial(n, [1 / n] * n, size=count) / n  # [draws, seeds]: weight of each seed
        if crossed:
            tasks = _weights(rng, count, len(rows[0]))
            means.append(((tasks @ np.array(rows).T) * seeds).sum(1))
        else:
            within = np.stack([_weights(rng, count, len(row)) @ row for row in rows], axis=1)
            means.append((within * seeds).sum(1))
    return np.concatenate(means)


def _weights(rng: np.random.Generator, draws: int, tasks: int) -> NDArray[np.float64]:
    """[draws, tasks]: how often each task is drawn, over how many are drawn."""
    return rng.multinomial(tasks, np.full(tasks, 1 / tasks), size=draws) / tasks


def _ends(level: float) -> list[float]:
    return [(1 - level) / 2, (1 + level) / 2]
