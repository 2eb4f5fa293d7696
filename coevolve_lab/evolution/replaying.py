"""Plays a solution again, call by call, for people to read: what validation saw when it executed a draft."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import NamedTuple

from coevolve_lab.environments.base import Environment
from coevolve_lab.evolution.validation import END_OF_TURN
from coevolve_lab.records import Task, TaskDraft

CONTROLS = ("doing nothing", "repeating the prompt")


class PlayedCall(NamedTuple):
    """One call, the user turn it was made in, and what the environment answered."""

    turn: int
    call: str
    observation: str
    failed: bool


class Replay(NamedTuple):
    """score: in [0, 1], None when the replay was cut short; ``stopped`` then says why, else it is ""."""

    calls: list[PlayedCall]
    score: float | None
    stopped: str


def replay_solution(
    environment: Environment, task: Task | TaskDraft, most_calls: int = 200, seconds: float = 20.0
) -> Replay:
    """Play the solution of a task or draft in a fresh session, as ``validate_drafts`` does.

    most_calls and seconds bound it; the deadline is looked at between calls. Raises whatever the environment raises.
    """
    return _play(environment, task, task.solution, most_calls, seconds)


def replay_controls(
    environment: Environment, task: Task | TaskDraft, most_calls: int = 200, seconds: float = 20.0
) -> dict[str, float | None]:
    """What the controls of the gate (design rule 4) score: by name of ``CONTROLS``; None: not played to its end.

    The third control, the random walk, is drawn anew each time and therefore not replayed. seconds: for both together.
    """
    deadline = time.monotonic() + seconds
    plans: tuple[list[tuple[str, ...]], ...] = ([() for _ in task.turns], [(turn,) for turn in task.turns])
    return {
        name: _play(environment, task, plan, most_calls, deadline - time.monotonic()).score
        for name, plan in zip(CONTROLS, plans, strict=True)
    }


def _play(
    environment: Environment, task: Task | TaskDraft, plan: Iterable[Iterable[str]], most_calls: int, seconds: float
) -> Replay:
    deadline = time.monotonic() + seconds
    session = environment.open(_opened(task))
    calls: list[PlayedCall] = []
    try:
        for turn, actions in enumerate(plan):
            done = False
            for action in actions:
                if len(calls) >= most_calls:
                    return Replay(calls, None, f"stopped after {most_calls} calls")
                if time.monotonic() > deadline:
                    return Replay(calls, None, f"stopped after {seconds:g} seconds")
                observation, done = session.step(action)
                calls.append(PlayedCall(turn, action, observation, session.last_failed))
                if done:
                    break
            if not done and session.turn == turn:  # else the last action has ended the turn by itself
                _, done = session.step(END_OF_TURN)
            if done:
                break
        return Replay(calls, session.score(), "")
    finally:
        session.close()


def _opened(task: Task | TaskDraft) -> Task:
    """What a session is opened with: a draft becomes the task that it would be."""
    if isinstance(task, Task):
        return task
    return Task(
        id=task.id,
        environment=task.environment,
        turns=task.turns,
        start=task.start,
        solution=task.solution,
        origin=task.origin,
        draft_id=task.id,
        round=task.round,
        explorer=task.explorer,
    )
