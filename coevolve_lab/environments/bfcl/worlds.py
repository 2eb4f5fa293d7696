"""Random start states of the BFCL classes, and the tools that can be called from them.

States are small and varied, and most tools can succeed in most of them. Their names come from one of two disjoint pools
(``names.py``), never from the official cases.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from coevolve_lab.environments.bfcl.binding import STARTERS, TOOLS
from coevolve_lab.environments.bfcl.names import Pool, names
from coevolve_lab.errors import ConfigError


def random_start(pool: Pool, classes: Sequence[str], rng: random.Random) -> dict[str, Any]:
    """A start state of the given API classes, JSON-like and ready for ``api.load_apis``.

    The key "pool" says where its names come from; fresh names for calls have to come from the same pool. Raises
    ConfigError for an unknown pool or class.
    """
    unknown = [name for name in classes if name not in STARTERS]
    if unknown:
        raise ConfigError(f"no BFCL class {unknown[0]!r}; the classes are {', '.join(STARTERS)}")
    chosen = names(pool)
    return {
        "involved_classes": list(classes),
        "initial_config": {name: STARTERS[name](chosen, rng) for name in classes},
        "excluded_function": [],
        "pool": pool,
    }


def tool_names(start: Mapping[str, Any]) -> tuple[str, ...]:
    """Tools that can be called from this start: those of its classes, without the excluded ones.

    Methods that can never succeed (``binding.NEVER_BOUND``) are left out. All others give the same state and results
    whenever the same calls are replayed from the same start; those that draw random numbers draw them from generators
    that the start state seeds.
    """
    excluded = frozenset(start.get("excluded_function", ()))
    return tuple(tool for name in start["involved_classes"] for tool in TOOLS[name] if tool not in excluded)
