"""Synthesized tasks are scored by executing (design rule 4), by the same rule as the official checker.

A task counts as solved when, after every user turn whose solution calls something, the agent called something in that
turn, the state equals that of the solution's replay, and every result that the solution read in that turn was also
obtained by the agent so far (as a multiset; results of earlier turns count). A reply that could not be read fails its
turn, as does a turn that was never finished. ``tests/environments/bfcl/test_agreement.py`` holds it against the
official checker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coevolve_lab.environments.bfcl.api import load_apis, same_state, state
from coevolve_lab.environments.bfcl.calls import Call, MalformedAction, parse_action


@dataclass(frozen=True)
class ReferenceTurn:
    """What the solution left behind after one user turn: results as text, and the state as ``api.state`` gives it."""

    results: Counter[str]
    state: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Reference:
    """A solution's replay. readable: every call of it could be parsed; nothing solves a task otherwise."""

    turns: tuple[ReferenceTurn, ...]
    readable: bool = True


def replay(start: Mapping[str, Any], solution: Sequence[Sequence[str]]) -> Reference:
    """Execute a solution from a fresh start state. About 0.1 ms a call; keep the result, it never changes."""
    apis = load_apis(start)
    turns = []
    try:
        for actions in solution:
            results = Counter(apis.execute(call).text for action in actions for call in _calls(action))
            turns.append(ReferenceTurn(results, state(apis)))
    except (MalformedAction, RecursionError):
        return Reference((), readable=False)
    return Reference(tuple(turns))


def _calls(action: str) -> list[Call]:
    found = parse_action(action)
    if not found:
        raise MalformedAction("the action calls nothing")
    return found


class Judge:
    """Follows one conversation turn by turn and says whether it solves the task."""

    def __init__(self, reference: Reference) -> None:
        self._reference = reference
        self._seen: Counter[str] = Counter()
        self._called = False
        self._turns: list[bool] = []

    def saw(self, result: str, ran: bool = True) -> None:
        """The agent got this result in the current turn. ran: its call was executed, not refused."""
        self._called |= ran
        self._seen[result] += 1

    def end_turn(self, apis: Mapping[str, Any], readable: bool) -> None:
        """The agent ended the current turn. readable: all of its replies in this turn could be parsed."""
        index = len(self._turns)
        right = readable and index < len(self._reference.turns)
        if right and self._reference.turns[index].results:
            expected = self._reference.turns[index]
            right = self._called and expected.results <= self._seen and same_state(apis, expected.state)
        self._turns.append(right)
        self._called = False

    def solved(self) -> bool:
        """Whether all turns of the solution were ended and right."""
        return self._reference.readable and 0 < len(self._reference.turns) <= len(self._turns) and all(self._turns)

    def progress(self) -> float:
        """Share in [0, 1] of all results the solution read that the agent obtained, whatever else it did."""
        wanted = sum((turn.results for turn in self._reference.turns), Counter[str]())
        return (wanted & self._seen).total() / wanted.total() if wanted else 0.0
