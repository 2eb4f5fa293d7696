"""The tasks that a run knows: D_t, and those of its evaluation split, which are not stored."""

from __future__ import annotations

import random

from coevolve_lab.environments.base import Environment
from coevolve_lab.errors import StoreError
from coevolve_lab.records import Task
from coevolve_lab.store import RunReader, quoted

MOST_OFFERED = 300  # ids of D_t, and of the evaluation split; any other can be typed


class KnownTasks:
    """Tasks by id. Reads the run anew at every call."""

    def __init__(self, reader: RunReader, environment: Environment, split: str) -> None:
        self._reader, self._environment, self._split = reader, environment, split

    def ids(self) -> list[str]:
        """Ids to choose from: the newest of D_t first, then the evaluation split."""
        newest = self._reader.sql(f"select id from tasks order by round desc, id limit {MOST_OFFERED}")["id"].to_list()
        return [*newest, *(task.id for task in self._evaluation()[:MOST_OFFERED])]

    def any_id(self) -> str:
        """The id of any of them. Raises StoreError when there is none."""
        count = self._reader.sql("select count(*) as n from tasks")["n"][0]
        evaluation = self._evaluation()
        if not count + len(evaluation):
            raise StoreError(f"{self._reader.run_dir} has no task yet, and the split '{self._split}' is empty")
        chosen = random.randrange(count + len(evaluation))
        if chosen >= count:
            return evaluation[chosen - count].id
        return str(self._reader.sql(f"select id from tasks order by id limit 1 offset {chosen}")["id"][0])

    def find(self, task_id: str) -> Task:
        """A task by its id. Raises StoreError when it is not among them."""
        found = self._reader.records(Task, f"id = {quoted(task_id)}")
        found += [task for task in self._evaluation() if task.id == task_id]
        if not found:
            raise StoreError(
                f"no task {task_id!r} in the task set of {self._reader.run_dir} nor in the split '{self._split}'; "
                "run.tasks()['id'] lists the former"
            )
        return found[0]

    def _evaluation(self) -> list[Task]:
        return self._environment.tasks(self._split)
