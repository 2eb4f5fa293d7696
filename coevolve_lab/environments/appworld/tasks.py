"""Reads a world's splits and task specifications from its data folder; nothing of the package is run for it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coevolve_lab.errors import EnvironmentFailure
from coevolve_lab.records import Task

BENCHMARK_SPLITS = ("train", "dev", "test_normal", "test_challenge")
SPLITS = (*BENCHMARK_SPLITS, "explore")


@dataclass(frozen=True)
class Specification:
    """What one of the benchmark's tasks says of itself. supervisor: first_name, last_name, email, phone_number."""

    id: str
    instruction: str
    supervisor: dict[str, str]


def read_split(root: Path, world: str, split: str) -> tuple[Task, ...]:
    """The benchmark's tasks of a split, in its own order and with its own ids.

    "explore" holds the start states of "train" without requests, so that nothing is ever explored where tasks are
    evaluated. Raises EnvironmentFailure for data that cannot be read.
    """
    explored = split == "explore"
    listed = root / "data" / "datasets" / f"{'train' if explored else split}.txt"
    try:
        names = listed.read_text(encoding="utf-8").split()
    except OSError as error:
        raise EnvironmentFailure(f"the {world} world has no split {listed}: {error}; install it again") from None
    return tuple(_task(read_specification(root, name), world, split, explored) for name in names)


def read_specification(root: Path, task_id: str) -> Specification:
    """The specification of one task. Raises EnvironmentFailure when there is no such task, or it cannot be read."""
    if not task_id.replace("_", "").isalnum():  # a start state may come from elsewhere, and names a folder
        raise EnvironmentFailure(f"{task_id!r} is no id of an AppWorld task")
    path = task_folder(root, task_id) / "specs.json"
    try:
        read: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        supervisor = {name: str(read["supervisor"][name]) for name in _SUPERVISOR}
        return Specification(task_id, str(read["instruction"]), supervisor)
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise EnvironmentFailure(f"AppWorld task {task_id} cannot be read from {path}: {error!r}") from None


def task_folder(root: Path, task_id: str) -> Path:
    """Where a task's specification, databases and ground truth are."""
    return root / "data" / "tasks" / task_id


def read_oracle(root: Path, task_id: str) -> str:
    """The world's own solution of one of its tasks, as a program. Raises EnvironmentFailure where the data have none.

    It is trusted as the data are, and an agent never sees it: workers have no ground truth.
    """
    path = task_folder(root, task_id) / "ground_truth" / "solution.py"
    try:
        return f"{path.read_text(encoding='utf-8')}\nsolution(apis, None)"
    except OSError as error:
        raise EnvironmentFailure(f"the data hold no solution of AppWorld task {task_id}: {error}") from None


_SUPERVISOR = ("first_name", "last_name", "email", "phone_number")


def _task(read: Specification, world: str, split: str, explored: bool) -> Task:
    return Task(
        id=f"appworld_explore_{read.id}" if explored else read.id,
        environment="appworld",
        turns=() if explored else (read.instruction,),
        start={"task": read.id, "world": world},
        split=split,
        origin="seed" if explored else "benchmark",
    )
