"""Imported into a kernel: the toy world, with an explorer that fails in round 2."""

from __future__ import annotations

from typing import Any

from coevolve_lab.errors import ExplorerError
from coevolve_lab.evolution import ScriptedExplorer
from tests import loop_world  # noqa: F401  (registers the environment)

_explore = ScriptedExplorer.explore


def explore(self: Any, contexts: Any, occasion: Any) -> Any:
    if occasion.round == 2:
        raise ExplorerError("the model server went away")
    return _explore(self, contexts, occasion)


ScriptedExplorer.explore = explore
