"""Which BFCL calls would be risky in a real world: one category per tool (data: ``risks.yaml``)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import yaml

from coevolve_lab.environments.bfcl.calls import MalformedAction, parse_action

HARMLESS = "harmless"
CATEGORIES = ("money", "deletion", "credentials", "message", "outside", "vehicle", HARMLESS)


def call_risks(solution: Sequence[Sequence[str]]) -> list[str]:
    """A sentence per risky tool that the actions of a solution call, in the order of first use.

    An action that cannot be read is a risk too, for what it would do is unknown.
    """
    found: dict[str, None] = {}
    for turn in solution:
        for action in turn:
            try:
                found |= dict.fromkeys(s for call in parse_action(action) if (s := _sentence(call.name)))
            except MalformedAction:
                found["A call of its solution cannot be read."] = None
    return list(found)


def category(tool: str) -> str | None:
    """One of CATEGORIES, None for a tool that BFCL does not have."""
    return _categories().get(tool)


def _sentence(tool: str) -> str:
    kind = category(tool)
    return "" if kind is None or kind == HARMLESS else str(_rows()[kind]["sentence"]).format(tool=tool)


@cache
def _categories() -> dict[str, str]:
    return {tool: kind for kind, row in _rows().items() for tool in row["tools"]}


@cache
def _rows() -> dict[str, dict[str, str | list[str]]]:
    rows: dict[str, dict[str, str | list[str]]] = yaml.safe_load(
        Path(__file__).with_name("risks.yaml").read_text(encoding="utf-8")
    )
    return rows
