"""Boundary: within one group the agent both succeeds and fails (section 3.1)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coevolve_lab.records import Signal, Trajectory
from coevolve_lab.signals.base import Detector, groups_of, register_signal


def boundary_mask(scores: ArrayLike, threshold: float = 0.5) -> NDArray[np.bool_]:
    """All true if some score of the group is strictly above the threshold and some strictly below, else all false.

    scores: [K], normalised to [0, 1]. Returns bool [K]. Section 3.1.
    """
    values = np.asarray(scores, dtype=float).reshape(-1)
    mixed = bool((values > threshold).any() and (values < threshold).any())
    return np.full(values.shape, mixed)


@register_signal("boundary")
class Boundary(Detector):
    """Marks every trajectory of a group with mixed outcomes. Needs no history."""

    def __init__(self, threshold: float = 0.5) -> None:
        self.threshold = threshold

    def detect(self, trajectories: Sequence[Trajectory]) -> list[Signal]:
        signals = []
        for group in groups_of(trajectories).values():
            scores = [t.score for t in group]
            if boundary_mask(scores, self.threshold).any():
                solved = sum(score > self.threshold for score in scores)
                signals += [self.mark(t, detail=f"{solved} of {len(group)} solved") for t in group]
        return signals
