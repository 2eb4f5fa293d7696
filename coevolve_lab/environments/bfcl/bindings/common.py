"""What the modules of this folder share: the shape of a binder, and a few draws."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from coevolve_lab.environments.bfcl.names import Names

T = TypeVar("T")
Arguments = dict[str, Any]
# Reads an instance, never changes it: the arguments of a call that will succeed now, or None if there is no such call.
Binder = Callable[[Any, Names, random.Random], Arguments | None]
Starter = Callable[[Names, random.Random], dict[str, Any]]

LOGGED_IN_SHARE = 0.8  # of start states; the rest is where the login tools can be learned


def pick(rng: random.Random, options: Iterable[T]) -> T | None:
    """One of the options, None if there is none."""
    found = options if isinstance(options, Sequence) else list(options)
    return rng.choice(found) if found else None


def chance(rng: random.Random, share: float) -> bool:
    return rng.random() < share


def some(rng: random.Random, options: Iterable[T], least: int, most: int) -> list[T]:
    """``least`` to ``most`` distinct options in random order, as far as there are so many."""
    found = list(options)
    return rng.sample(found, min(len(found), rng.randint(least, most)))


def distinct(make: Callable[[], T], count: int) -> list[T]:
    """``count`` different values of ``make``, in the order in which they turned up."""
    found: dict[T, None] = {}
    while len(found) < count:
        found[make()] = None
    return list(found)


def no_arguments(_api: Any, _names: Names, _rng: random.Random) -> Arguments:
    return {}
