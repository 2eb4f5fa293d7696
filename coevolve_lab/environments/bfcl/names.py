"""The two pools of names that start states and fresh arguments are drawn from (data: ``names.yaml``).

The pools "train" and "held_out" share no word. Ids (tickets, orders, cards, tokens, ...) are kept apart as well: those
of "held_out" are multiples of 3, those of "train" are not. Extensions, amounts, dates and the fixed vocabulary of the
official classes (cities, airports, units, currencies, doors, ...) are no names and belong to both.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Container
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, get_args

import yaml

from coevolve_lab.errors import ConfigError

Pool = Literal["train", "held_out"]
EXTENSIONS = ("txt", "md", "csv", "log")
FRESH_TRIES = 20


@dataclass(frozen=True)
class Names:
    """One pool. Every method draws with the given generator and keeps no state."""

    pool: Pool
    nouns: tuple[str, ...]
    words: tuple[str, ...]
    people: tuple[str, ...]
    surnames: tuple[str, ...]
    symbols: tuple[str, ...]

    def noun(self, rng: random.Random) -> str:
        return rng.choice(self.nouns)

    def word(self, rng: random.Random) -> str:
        return rng.choice(self.words)

    def person(self, rng: random.Random) -> str:
        return rng.choice(self.people)

    def symbol(self, rng: random.Random) -> str:
        return rng.choice(self.symbols)

    def file(self, rng: random.Random) -> str:
        """A file name such as ``report.txt``."""
        return f"{rng.choice(self.nouns)}.{rng.choice(EXTENSIONS)}"

    def text(self, rng: random.Random, least: int = 2, most: int = 3) -> str:
        """``least`` to ``most`` words in one line."""
        return " ".join(rng.choices(self.words, k=rng.randint(least, most)))

    def lines(self, rng: random.Random, least: int = 1, most: int = 3) -> str:
        """Content of a file: ``least`` to ``most`` lines."""
        return "\n".join(self.text(rng) for _ in range(rng.randint(least, most)))

    def number(self, rng: random.Random, low: int, high: int) -> int:
        """An id in [low, high]; high - low must be at least 2."""
        third = rng.randint((low + 2) // 3, high // 3) * 3
        if self.pool == "held_out":
            return third
        return third + 1 if third < high else third - 1

    def password(self, rng: random.Random) -> str:
        return f"{self.word(rng)}{self.number(rng, 10, 99)}"

    def fresh(self, make: Callable[[random.Random], str], rng: random.Random, taken: Container[str]) -> str | None:
        """A name from ``make`` that is not in ``taken``; None when none turned up in a few tries."""
        for _ in range(FRESH_TRIES):
            name = make(rng)
            if name not in taken:
                return name
        return None


@cache
def names(pool: Pool) -> Names:
    """The pool of that name. Raises ConfigError if there is none."""
    if pool not in get_args(Pool):
        raise ConfigError(f"no name pool {pool!r}; the pools are {', '.join(get_args(Pool))}")
    rows = yaml.safe_load(Path(__file__).with_name("names.yaml").read_text(encoding="utf-8"))[pool]
    return Names(pool=pool, **{kind: tuple(values) for kind, values in rows.items()})
