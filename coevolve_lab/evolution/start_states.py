"""What explorers of every kind do with a start state: open it, see its tools, play calls alone from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coevolve_lab.environments.base import Environment, Session
from coevolve_lab.errors import EnvironmentFailure
from coevolve_lab.records import Origin, Task

# Of a draft, by the kind of its context; every other kind is a signal's or the coverage floor's: "feedback".
ORIGINS: Mapping[str, Origin] = {"seed": "seed", "random": "random", "uniform": "uniform"}


def open_start(environment: Environment, start: Mapping[str, Any]) -> Session:
    """A session without a task of its own. Raises EnvironmentFailure when the start state cannot be loaded."""
    return environment.open(Task("explore", environment.name, ("Explore.",), start))


def replayed(environment: Environment, start: Mapping[str, Any], calls: Sequence[str]) -> list[str]:
    """The calls that still work, played alone from the initial state; [] if the environment breaks on them."""
    try:
        session = open_start(environment, start)
    except EnvironmentFailure:
        return []
    try:
        good = []
        for call in calls:
            _, done = session.step(call)
            if not session.last_failed:
                good.append(call)
            if done:
                break
        return good
    except Exception:  # whatever a benchmark's own code raises on calls that are played alone
        return []
    finally:
        session.close()


def offered_tools(environment: Environment, start: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Schemas of the tools that a start state offers; [] if it cannot be loaded."""
    try:
        session = open_start(environment, start)
    except EnvironmentFailure:
        return []
    try:
        return session.tools
    finally:
        session.close()
