"""Synthesized tasks are scored by executing (design rule 4): what an episode left is what their solution leaves.

The solution is played twice, each time in a fresh world. If both leave the same database changes and the same answer,
those are what an episode has to leave too: the same rows added, changed and removed, nothing else, and the same answer.
In which order it made new rows does not count.
A solution that fails, or that does not do the same twice, is refused: nothing then solves the task.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

# By app and model, as ``Scorer.diff`` gives them: rows added and removed, and pairs of a changed row before and after.
Changes = Mapping[str, Mapping[str, Mapping[str, list[Any]]]]

# Every login writes it, also one that only looks something up.
BOOKKEEPING = frozenset({"last_logged_in"})


@dataclass(frozen=True)
class Outcome:
    """What an episode left: what it changed in the databases, and its answer."""

    changes: Changes
    answer: str | None


@dataclass(frozen=True)
class Reference:
    """What a solution leaves; None if it is refused, and ``refused`` then says why."""

    outcome: Outcome | None
    refused: str = ""

    def solved_by(self, outcome: Outcome) -> bool:
        """Whether an episode left what the solution leaves."""
        return self.outcome is not None and same_outcome(self.outcome, outcome)


def make_reference(play: Callable[[], Outcome | str]) -> Reference:
    """The reference of a solution from two executions of it. play: one in a fresh world; text says why it failed."""
    first = play()
    if isinstance(first, str):
        return Reference(None, first)
    second = play()
    if isinstance(second, str):
        return Reference(None, second)
    if not same_outcome(first, second):
        return Reference(None, "the solution does not do the same twice")
    return Reference(first)


def same_outcome(one: Outcome, other: Outcome) -> bool:
    """Equal database changes, and equal answers as ``same_answer`` compares them."""
    return _key(one.changes) == _key(other.changes) and same_answer(one.answer, other.answer)


def same_answer(one: str | None, other: str | None) -> bool:
    """Equal up to case, outer blanks and the spelling of numbers ("3" and "3.0")."""
    if one is None or other is None:
        return one is other
    one, other = one.strip().casefold(), other.strip().casefold()
    return one == other or (_number(one) is not None and _number(one) == _number(other))


def _key(changes: Changes) -> dict[str, dict[str, list[str]]]:
    """What is compared: rows in any order, and of new ones not their numbers, which tell no more than that order."""
    return {
        model: {
            "added": sorted(
                _text({name: value for name, value in row.items() if name != "id"}) for row in rows["added"]
            ),
            "removed": sorted(map(_text, rows["removed"])),
            "changed": sorted(map(_text, rows["changed"])),
        }
        for model, rows in without_bookkeeping(changes).items()
    }


def _text(row: Any) -> str:
    return json.dumps(row, sort_keys=True, default=str)


def without_bookkeeping(changes: Changes) -> dict[str, dict[str, list[Any]]]:
    """The changes by "app.Model" without what logins write; models that were changed in nothing else are left out."""
    kept: dict[str, dict[str, list[Any]]] = {}
    for app, models in changes.items():
        for model, rows in models.items():
            pairs = [[_row(before), _row(after)] for before, after in rows["changed"]]
            left: dict[str, list[Any]] = {
                "added": [_row(row) for row in rows["added"]],
                "removed": [_row(row) for row in rows["removed"]],
                "changed": [pair for pair in pairs if pair[0] != pair[1]],
            }
            if any(left.values()):
                kept[f"{app}.{model}"] = left
    return kept


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in BOOKKEEPING}


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
