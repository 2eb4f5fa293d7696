"""Which arguments a tool can be called with right now, for all eight API classes, and which tools are easily confused.

This is what the scripted explorer has instead of reading observations: it looks at the live instances of its own
session. A policy never sees any of it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from coevolve_lab.environments.bfcl.bindings import files, math, message, ticket, trading, travel, twitter, vehicle
from coevolve_lab.environments.bfcl.bindings.common import Binder, Starter
from coevolve_lab.environments.bfcl.calls import Call, render_call
from coevolve_lab.environments.bfcl.names import Pool, names

_MODULES = {
    "GorillaFileSystem": files,
    "MathAPI": math,
    "MessageAPI": message,
    "TwitterAPI": twitter,
    "TicketAPI": ticket,
    "TradingBot": trading,
    "TravelAPI": travel,
    "VehicleControlAPI": vehicle,
}
STARTERS: Mapping[str, Starter] = {name: module.start for name, module in _MODULES.items()}
TOOLS: Mapping[str, tuple[str, ...]] = {name: tuple(module.BINDERS) for name, module in _MODULES.items()}
NEVER_BOUND: Mapping[str, str] = {
    "get_outside_temperature_from_weather_com": "the official method answers with error 404 whatever the state",
}
_BINDERS: dict[str, tuple[str, Binder]] = {
    tool: (name, binder) for name, module in _MODULES.items() for tool, binder in module.BINDERS.items()
}


def bind(apis: Mapping[str, Any], tool: str, rng: random.Random, pool: Pool = "train") -> str | None:
    """A call of ``tool`` in canonical Python syntax that will succeed in the state that ``apis`` are in.

    apis: live instances by class name; they are read, never changed. pool: where fresh names come from; the pool of the
    session's start. None if nothing fits (no empty directory to remove, nobody logged in, ...) or if no class of
    ``apis`` has the tool.
    """
    owner, binder = _BINDERS.get(tool, ("", None))
    if binder is None or owner not in apis:
        return None
    arguments = binder(apis[owner], names(pool), rng)
    return None if arguments is None else render_call(Call(tool, (), arguments))


def confusable(tool: str) -> list[str]:
    """Tools of the same class that a careless agent takes for ``tool``, same parameters first; [] if unknown."""
    return list(_confusions().get(tool, ()))


@cache
def _confusions() -> dict[str, tuple[str, ...]]:
    rows = yaml.safe_load(Path(__file__).with_name("confusions.yaml").read_text(encoding="utf-8"))
    return {tool: tuple(others) for tool, others in rows.items()}
