"""Rare: an action pattern that training has seldom seen, though more than once (section 3.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from coevolve_lab.records import Signal, Trajectory
from coevolve_lab.signals.base import Detector, register_signal
from coevolve_lab.signals.patterns import action_patterns

P = TypeVar("P")
Pattern = tuple[str, ...]


def rare_patterns(counts: Mapping[P, int], theta: float = 5.0, n_min: int = 100) -> list[P]:
    """Sorted patterns with 0 < c / N < theta / 100, where N is the sum of all counts; none while N < n_min.

    counts: occurrences c by pattern. theta: percent. Section 3.1; the paper does not publish n_min.
    """
    total = sum(counts.values())
    if total <= 0 or total < n_min:
        return []
    return sorted(p for p, c in counts.items() if 0 < c / total < theta / 100)  # type: ignore[type-var]


@register_signal("rare")
class Rare(Detector):
    """Counts patterns of calls that worked: c_p is the number of trajectories that contain p, N the sum of all c_p.

    A trajectory is marked when it contains a pattern that is rare by the counts of earlier steps and that, this step
    included, at least ``min_trajectories`` trajectories contain (the text wants patterns that recur, not accidents).
    A pattern's first step never marks it: it is counted from the next one. The signal names the least seen pattern.
    """

    def __init__(
        self, theta: float = 5.0, n_min: int = 100, pattern: str = "bigram", min_trajectories: int = 2
    ) -> None:
        action_patterns((), pattern)
        self.theta = theta
        self.n_min = n_min
        self.pattern = pattern
        self.min_trajectories = min_trajectories
        self._settled: Counter[Pattern] = Counter()
        # The newest step is kept apart, so that repeating it neither sees itself nor counts twice.
        self._step = -1
        self._newest: dict[str, list[Pattern]] = {}

    @property
    def counts(self) -> dict[Pattern, int]:
        """Trajectories seen so far by pattern they contain."""
        return dict(self._settled + self._newest_counts())

    def detect(self, trajectories: Sequence[Trajectory]) -> list[Signal]:
        if not trajectories:
            return []
        earlier = self._settled + self._newest_counts() if trajectories[0].step > self._step else self._settled
        rare = set(rare_patterns(earlier, self.theta, self.n_min))
        found = {t.id: action_patterns(_worked(t), self.pattern) for t in trajectories}
        seen = earlier + Counter(p for patterns in found.values() for p in patterns)
        recurring = {p for p in rare if seen[p] >= self.min_trajectories}
        signals = []
        for t in trajectories:
            marked = [p for p in found[t.id] if p in recurring]
            if marked:
                rarest = min(marked, key=lambda p: (earlier[p], p))
                detail = f"{earlier[rarest]} of {sum(earlier.values())} patterns; {len(marked)} rare ones here"
                signals.append(self.mark(t, pattern=rarest, detail=detail))
        return signals

    def update(self, trajectories: Sequence[Trajectory]) -> None:
        for t in trajectories:
            if t.step < self._step:
                continue  # counted when it was the newest
            if t.step > self._step:
                self._settled += self._newest_counts()
                self._step, self._newest = t.step, {}
            self._newest[t.id] = action_patterns(_worked(t), self.pattern)

    def state(self) -> dict[str, Any]:
        return {
            "pattern": self.pattern,
            "settled": [[list(p), c] for p, c in sorted(self._settled.items())],
            "step": self._step,
            "newest": {i: [list(p) for p in patterns] for i, patterns in self._newest.items()},
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """A history of another kind of pattern, which a fork may go on from, says nothing about this one: left out."""
        if state.get("pattern", self.pattern) != self.pattern:
            return
        self._settled = Counter({tuple(p): int(c) for p, c in state["settled"]})
        self._step = int(state["step"])
        self._newest = {i: [tuple(p) for p in patterns] for i, patterns in state["newest"].items()}

    def _newest_counts(self) -> Counter[Pattern]:
        return Counter(p for patterns in self._newest.values() for p in patterns)


def _worked(trajectory: Trajectory) -> tuple[str, ...]:
    """Tools of the steps without an error. A model invents tool names, each of them rarely: they are no weakness that
    could be explored, and counted in they took a third of all contexts."""
    return tuple(name for step in trajectory.steps if not step.failed for name in step.tools)
