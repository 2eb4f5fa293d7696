"""Tasks made by walking a scripted world: the held-out split, and the same generator for demonstrations."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from coevolve_lab.environments.bfcl.session import BFCLSession
from coevolve_lab.errors import EnvironmentFailure
from coevolve_lab.records import Origin, Task

_TRIES_PER_CALL = 20
_TRIES_PER_TASK = 50
_TRIES_PER_START = 4


class World(Protocol):
    """What this module needs of ``BFCLEnvironment``."""

    name: str

    def open(self, task: Task) -> BFCLSession: ...
    def start(self, pool: str, rng: random.Random) -> Mapping[str, Any]: ...
    def tool_names(self, start: Mapping[str, Any]) -> Sequence[str]: ...
    def bind(self, session: BFCLSession, tool: str, rng: random.Random) -> str | None: ...
    def phrase(self, call: str, rng: random.Random) -> str: ...


def sample_task(
    world: World,
    start: Mapping[str, Any],
    weights: Mapping[str, float] | None,
    n_calls: int,
    rng: random.Random,
    *,
    id: str,
    split: str = "train",
    origin: Origin = "seed",
    first: str | None = None,
) -> Task | None:
    """A single-turn task of ``n_calls`` successful, different calls from ``start``; None if no such walk was found.

    weights: how likely each tool is at each call, by name; a missing tool has weight 0; None: all tools alike.
    first: the tool of the first call, drawn too if None.
    """
    session = world.open(Task(id, world.name, (), start, origin=origin))
    names = list(world.tool_names(start))
    shares = [1.0 if weights is None else weights.get(name, 0.0) for name in names]
    if not any(shares):
        return None
    calls: list[str] = []
    for drawn in rng.choices(names, shares, k=_TRIES_PER_CALL * n_calls):
        tool = drawn if calls or first is None else first
        call = world.bind(session, tool, rng)
        if call is None or call in calls:
            if tool == first and not calls:
                return None  # binding looks at the state, which another try does not change
            continue
        session.step(call)
        if session.last_failed:
            return None
        calls.append(call)
        if len(calls) == n_calls:
            return Task(
                id, world.name, (join_phrases([world.phrase(call, rng) for call in calls]),), start, (tuple(calls),),
                split=split, origin=origin, explorer="scripted",
            )  # fmt: skip
    return None


def join_phrases(phrases: Sequence[str]) -> str:
    """One user message that asks for several things in order."""
    return " then ".join(phrases)


def make_tasks(
    world: World, count: int, max_calls: int, rng: random.Random, split: str = "held_out", apart: Sequence[Task] = ()
) -> tuple[Task, ...]:
    """``count`` distinct held-out tasks of 1 to ``max_calls`` calls; their first calls go round all tools in turn.

    apart: tasks of another split, none of which is made again. Raises EnvironmentFailure when the world is too small
    for so many distinct tasks.
    """
    tasks: list[Task] = []
    seen: set[tuple[Any, ...]] = {(task.turns, task.solution) for task in apart}
    waiting: list[str] = []  # tools of this round that had no task yet
    for _ in range(_TRIES_PER_TASK * count):
        if len(tasks) == count:
            return tuple(tasks)
        start = world.start("held_out", rng)
        possible = list(world.tool_names(start))
        if not (usable := [tool for tool in waiting if tool in possible]):
            waiting = usable = rng.sample(possible, len(possible))
        for tool in usable[:_TRIES_PER_START]:
            id, calls = f"bfcl_{split}_{len(tasks)}", rng.randint(1, max_calls)
            task = sample_task(world, start, None, calls, rng, id=id, split=split, first=tool)
            if task is not None and (task.turns, task.solution) not in seen:
                seen.add((task.turns, task.solution))
                tasks.append(task)
                waiting.remove(tool)
                break
    raise EnvironmentFailure(
        f"this world gave only {len(tasks)} of {count} distinct tasks for the split '{split}'; ask for fewer"
    )
