"""Forgetting: a task that used to be solved is failed now (section 3.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coevolve_lab.records import Signal, Trajectory
from coevolve_lab.signals.base import Detector, groups_of, register_signal


def forgetting_mask(
    scores: ArrayLike, history: ArrayLike, window: int = 10, threshold: float = 0.5
) -> NDArray[np.bool_]:
    """Which of a task's K trajectories are forgotten: score < threshold while the window holds a score >= threshold.

    scores: [K], of this visit. history: task-level scores of *earlier* visits, oldest first; its last ``window``
    entries are the window. Returns bool [K]. Section 3.1; the paper does not publish the window.
    """
    if window < 1:
        raise ValueError(f"window must be at least 1, not {window}")
    now = np.asarray(scores, dtype=float).reshape(-1)
    seen = np.asarray(history, dtype=float).reshape(-1)[-window:]
    return (now < threshold) & bool((seen >= threshold).any())


@register_signal("forgetting")
class Forgetting(Detector):
    """Keeps each task's earlier task-level scores: a group's mean score, one entry per visit."""

    def __init__(self, window: int = 10, threshold: float = 0.5) -> None:
        forgetting_mask((), (), window)  # a window that cannot be is an error at once
        self.window = window
        self.threshold = threshold
        # Entries carry step and group, so that repeating a step neither sees its own scores nor enters them twice.
        self._visits: dict[str, list[tuple[int, str, float]]] = {}

    def detect(self, trajectories: Sequence[Trajectory]) -> list[Signal]:
        signals = []
        for group in groups_of(trajectories).values():
            first = group[0]
            history = [score for step, _, score in self._visits.get(first.task_id, []) if step < first.step]
            mask = forgetting_mask([t.score for t in group], history, self.window, self.threshold)
            best = max(history[-self.window :], default=0.0)
            signals += [
                self.mark(t, detail=f"scored {best:.2f} within the last {self.window} visits")
                for t, forgotten in zip(group, mask, strict=True)
                if forgotten
            ]
        return signals

    def update(self, trajectories: Sequence[Trajectory]) -> None:
        for group_id, group in groups_of(trajectories).items():
            step = group[0].step
            visits = [v for v in self._visits.get(group[0].task_id, []) if v[1] != group_id]
            visits.append((step, group_id, float(np.mean([t.score for t in group]))))
            visits.sort(key=lambda v: v[0])
            earlier = [v for v in visits if v[0] < visits[-1][0]]
            self._visits[group[0].task_id] = earlier[-self.window :] + visits[len(earlier) :]

    def state(self) -> dict[str, Any]:
        return {"visits": {task: [list(v) for v in visits] for task, visits in self._visits.items()}}

    def load(self, state: Mapping[str, Any]) -> None:
        self._visits = {
            task: [(int(step), str(group), float(score)) for step, group, score in visits]
            for task, visits in state["visits"].items()
        }
