"""D_t, the task set that only grows: D_{t+1} = D_t + validated tasks (section 3)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from coevolve_lab.records import Task, Verdict


class TaskSet:
    """Tasks in order of arrival. There is no way to remove or replace one."""

    def __init__(self, tasks: Iterable[Task] = ()) -> None:
        self._tasks: dict[str, Task] = {}
        self._drafts: set[str] = set()
        for task in tasks:
            self._add(task)

    def __len__(self) -> int:
        return len(self._tasks)

    def __iter__(self) -> Iterator[Task]:
        return iter(self._tasks.values())

    def __contains__(self, task_id: object) -> bool:
        return task_id in self._tasks

    def __getitem__(self, task_id: str) -> Task:
        return self._tasks[task_id]

    def append(self, verdicts: Sequence[Verdict]) -> list[Task]:
        """Add the tasks of accepted verdicts and return those that are new; verdicts seen before add nothing.

        Raises ValueError if an id is already taken by a different task.
        """
        accepted = [v.task for v in verdicts if v.outcome == "accepted" and v.task is not None]
        return [task for task in accepted if self._add(task)]

    def counts(self) -> dict[str, int]:
        """Number of tasks by origin."""
        return dict(Counter(task.origin for task in self))

    def sample(
        self, n: int, seed: int | str, visits: Mapping[str, int] | None = None, revisit_share: float = 0.0
    ) -> list[Task]:
        """``n`` tasks for one training step, the same for the same arguments.

        visits: how often each task id was tried. ``revisit_share`` of the batch is drawn from tasks tried before
        (forgetting can only be seen on those), the rest goes to the least tried. No task occurs twice, unless the
        set is smaller than ``n``: then every task occurs before one is repeated. Raises ValueError on an empty set.
        """
        if not self._tasks:
            raise ValueError("cannot sample from an empty task set; seed it first (run.seed_tasks())")
        rng, seen = random.Random(f"sample/{seed}"), visits or {}
        order = list(self._tasks)
        rng.shuffle(order)
        tried = [task_id for task_id in order if seen.get(task_id, 0) > 0]
        again = tried[: min(round(n * revisit_share), n)]
        chosen = set(again)
        # the sort is stable: among tasks tried equally often, the shuffle decides
        rest = sorted((i for i in order if i not in chosen), key=lambda task_id: seen.get(task_id, 0))
        batch = again + rest
        picked = [batch[i % len(batch)] for i in range(n)]
        rng.shuffle(picked)
        return [self._tasks[task_id] for task_id in picked]

    def _add(self, task: Task) -> bool:
        known = self._tasks.get(task.id)
        if known is not None and known != task:
            raise ValueError(f"task id '{task.id}' is taken by another task; D_t never replaces one")
        if known is not None or task.draft_id in self._drafts:  # a draft that was validated twice enters once
            return False
        self._tasks[task.id] = task
        if task.draft_id is not None:
            self._drafts.add(task.draft_id)
        return True
