"""Two evaluations task by task: who solves what, and whether chance alone could have made the difference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from coevolve_lab.evaluation.metrics import pass_rate


@dataclass(frozen=True)
class Paired:
    """Table 8's cross comparison in counts, over the tasks that both evaluations have.

    only_first, only_other: ids of the tasks that one solves and the other does not. difference: the other's share of
    solved tasks minus the first's, stderr: its standard error over the same tasks (smaller than that of two separate
    scores when the two mostly solve the same). p_value: McNemar's exact test, two-sided.
    """

    both: int
    only_first: tuple[str, ...]
    only_other: tuple[str, ...]
    neither: int
    difference: float
    stderr: float
    p_value: float

    @property
    def tasks(self) -> int:
        """How many tasks they have in common."""
        return self.both + len(self.only_first) + len(self.only_other) + self.neither

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Tasks solved by both, by the first only, by the other only, by neither."""
        return self.both, len(self.only_first), len(self.only_other), self.neither


def paired(first: Mapping[str, float], other: Mapping[str, float]) -> Paired:
    """Compare two outcomes by task id; a task counts as solved only with the full score of 1.

    Tasks that only one of them has are left out. Raises ValueError when they have none in common.
    """
    common = sorted(first.keys() & other.keys())
    if not common:
        raise ValueError("the two evaluations have no task in common")
    solved = {task: (first[task] >= 1.0, other[task] >= 1.0) for task in common}
    only_first = tuple(task for task, outcome in solved.items() if outcome == (True, False))
    only_other = tuple(task for task, outcome in solved.items() if outcome == (False, True))
    both = sum(outcome == (True, True) for outcome in solved.values())
    difference, stderr = pass_rate(float(after) - float(before) for before, after in solved.values())
    return Paired(
        both,
        only_first,
        only_other,
        len(common) - both - len(only_first) - len(only_other),
        difference,
        stderr,
        mcnemar(len(only_first), len(only_other)),
    )


def mcnemar(only_first: int, only_other: int) -> float:
    """McNemar's exact test, two-sided: how likely so uneven a split of the tasks that only one of two solves would be
    if each of them were as likely to fall to either (binomial with 1/2). 1 without such tasks."""
    discordant, fewer = only_first + only_other, min(only_first, only_other)
    ways = tail = 1
    for k in range(fewer):
        ways = ways * (discordant - k) // (k + 1)  # ways to choose k + 1, exactly
        tail += ways
    return min(1.0, 2 * tail / 2**discordant)
