"""A toy round: tasks of D_t, trajectories on them, and the pieces of stages 2 and 3 on the toy world."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from coevolve_lab.config import EvolutionConfig
from coevolve_lab.evolution import ScriptedExplorer, StartPool
from coevolve_lab.records import Signal, Step, Task, TaskDraft, Trajectory
from tests.evolution.toy_world import ToyWorld

START = {
    "pool": "train",
    "classes": ["values", "counters"],
    "values": {"ant": "red 1", "bee": "blue 2"},
    "counters": {"cat": 3, "dog": 4},
}


@pytest.fixture
def world() -> ToyWorld:
    return ToyWorld()


@pytest.fixture
def config() -> EvolutionConfig:
    return EvolutionConfig(contexts_per_round=16, min_calls=1, max_calls=2)


@pytest.fixture
def pool(world: ToyWorld) -> StartPool:
    return StartPool(world)


@pytest.fixture
def explorer(world: ToyWorld, config: EvolutionConfig) -> ScriptedExplorer:
    return ScriptedExplorer(world, config)


@pytest.fixture
def task() -> Callable[..., Task]:
    """task(*calls): a task of D_t that these calls solve from START."""

    def make(*calls: str, name: str = "task-r0-0", query: str = "do it") -> Task:
        return Task(name, "toy", (query,), START, (calls,), origin="seed")

    return make


@pytest.fixture
def draft() -> Callable[..., TaskDraft]:
    """draft(*calls): a one-turn draft from START; keywords replace fields."""

    def make(*calls: str, **fields: Any) -> TaskDraft:
        given: dict[str, Any] = {"id": "draft-r1-0", "context_id": "ctx-r1-0", "rollout_id": "explore-r1-0"}
        given |= {
            "environment": "toy",
            "turns": ("please do it now",),
            "start": START,
            "solution": (calls,),
            "round": 1,
        }
        return TaskDraft(**(given | {"origin": "feedback"} | fields))

    return make


@pytest.fixture
def group() -> Callable[..., list[Trajectory]]:
    """group(task, {actions: score, ...}): one trajectory per entry; a step fails if its action starts with "!"."""

    def make(task: Task, members: Sequence[tuple[Sequence[str], float]], number: int = 0) -> list[Trajectory]:
        return [
            Trajectory(
                id=f"trajectory-{number}-{k}",
                task_id=task.id,
                group_id=f"group-{number}",
                policy_version=7,
                round=1,
                step=10,
                score=score,
                status="completed",
                steps=tuple(
                    Step(
                        turn=0,
                        action=action.lstrip("!"),
                        observation="error: no such key" if action.startswith("!") else "ok",
                        tools=(action.lstrip("!").split("(")[0],),
                        failed=action.startswith("!"),
                    )
                    for action in actions
                ),
            )
            for k, (actions, score) in enumerate(members)
        ]

    return make


@pytest.fixture
def mark() -> Callable[..., Signal]:
    """mark(trajectory, kind): a signal on it."""

    def make(trajectory: Trajectory, kind: str, pattern: tuple[str, ...] = (), name: str = "") -> Signal:
        name = name or f"signal-{kind}-{trajectory.id}"
        where = (trajectory.id, trajectory.task_id, trajectory.group_id)
        return Signal(name, kind, *where, round=1, step=10, score=trajectory.score, pattern=pattern)

    return make
