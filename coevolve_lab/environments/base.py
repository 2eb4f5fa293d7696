"""What every environment offers: splits of tasks, and sessions in which one task is played.

An ``Environment`` is cheap to make and shared; a ``Session`` is one episode with state of its own, used by one thread.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from typing import Any, Protocol, runtime_checkable

from coevolve_lab.records import Task


@runtime_checkable
class Session(Protocol):
    """One episode. ``step`` takes the model's text as sampled and never raises on what a model wrote.

    After each ``step``, ``last_tools`` holds the names of the calls that were read from the action, in order, and
    ``last_failed`` tells whether the action could not be parsed or one of its calls returned an error.
    """

    observation: str  # what the agent sees first
    tools: list[dict[str, Any]]  # OpenAI-style schemas of the callable tools
    turn: int  # index of the user turn that is being answered
    last_tools: tuple[str, ...]
    last_failed: bool

    def step(self, action: str) -> tuple[str, bool]:
        """Play one action; returns (observation, done)."""
        ...

    def score(self) -> float:
        """Score in [0, 1] of the episode so far, by execution."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class Environment(Protocol):
    """A benchmark, or a world that tasks can be found in."""

    name: str

    def splits(self) -> list[str]: ...

    def tasks(self, split: str) -> list[Task]:
        """Tasks of a split. Those of "explore" are start states, without turns or solutions, to explore from."""
        ...

    def open(self, task: Task) -> Session:
        """A fresh session; nothing of an earlier session of the same task is left in it."""
        ...


@runtime_checkable
class ScriptedWorld(Protocol):
    """What the scripted explorer and the tiny policy's demonstrations need of an environment, beside sessions.

    An LLM explorer needs none of it: it reads schemas and observations. Environments without it can only be explored
    by an LLM.
    """

    def start(self, pool: str, rng: random.Random) -> Mapping[str, Any]:
        """A random start state whose names come from ``pool`` ("train" or "held_out"; the two pools share no name)."""
        ...

    def tool_names(self, start: Mapping[str, Any]) -> Sequence[str]:
        """Names of the tools that can be called from this start."""
        ...

    def bind(self, session: Session, tool: str, rng: random.Random) -> str | None:
        """A call of ``tool`` as text, its arguments bound to what this session's state offers; None if nothing fits."""
        ...

    def phrase(self, call: str, rng: random.Random) -> str:
        """What a user would say to ask for this call."""
        ...


@runtime_checkable
class RiskRules(Protocol):
    """What an environment may offer beside sessions: which calls a person should see before anybody trains on them."""

    def risks(self, solution: Sequence[Sequence[str]]) -> list[str]:
        """A sentence per risk of a solution's calls (per user turn); [] when there is none. Never raises on text."""
        ...


def most_sessions(environment: Environment) -> int | None:
    """How many sessions of an environment can be open at once; None: as many as wanted.

    An environment whose sessions need a process each says so as ``max_sessions``. Opening one more then waits until one
    is scored or closed, so whoever holds several at a time has to keep below it.
    """
    limit = getattr(environment, "max_sessions", None)
    return None if limit is None else int(limit)


def content_of(environment: Environment) -> str | None:
    """What changes with an environment's content where its name and options do not tell; None: they tell all.

    An environment that is generated at set-up says so as ``fingerprint``.
    """
    content = getattr(environment, "fingerprint", None)
    return None if content is None else str(content)


def one_wave(environment: Environment) -> AbstractContextManager[Any]:
    """What a thread holds while it opens and plays several sessions at once.

    Two that have half of the sessions each would wait for one another: an environment with ``max_sessions`` has a lock
    for that, ``waves``.
    """
    lock: AbstractContextManager[Any] | None = getattr(environment, "waves", None)
    return nullcontext() if lock is None else lock


def session_places(environment: Environment) -> AbstractAsyncContextManager[Any]:
    """What coroutines hold while they have a session open, so that there are never more than ``most_sessions``."""
    limit = most_sessions(environment)
    return nullcontext() if limit is None else asyncio.Semaphore(limit)
