"""What a scenario is: three tasks of one kind, and the code that prepares, solves and checks them.

A module of ``scenarios`` defines ``SCENARIO`` and three functions. ``prepare(world, me)`` writes what the task needs
into the databases and returns the ``Case``: it knows the right outcome from what it wrote and from the models, never
through the APIs. ``solution(apis, public)`` is the oracle: what an agent could have written; it sees nothing but the
APIs and the values that the instruction names. ``evaluate(...)`` is the package's own kind of check. The sources of the
last two are written into the tasks, so they use no name of their module.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from mini_world.people import Person
from mini_world.world import World

Answer = str | int | float | None
Prepare = Callable[[World, Person], "Case"]


@dataclass(frozen=True)
class Scenario:
    """``instruction`` has a place for each public value; ``difficulty`` is 1 to 3, as in the benchmark."""

    id: str
    split: str
    difficulty: int
    apps: tuple[str, ...]  # that the oracle uses, without supervisor and api_docs
    instruction: str


@dataclass(frozen=True)
class Case:
    """One task of a scenario: what its instruction says, what only its check knows, and the answer it expects."""

    public: dict[str, Any]
    private: dict[str, Any] = field(default_factory=dict)
    answer: Answer = None


@dataclass(frozen=True)
class Loaded:
    scenario: Scenario
    module: ModuleType

    def prepare(self, world: World, me: Person) -> Case:
        case: Case = self.module.prepare(world, me)
        return case
