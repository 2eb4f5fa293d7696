"""One BFCL episode: user turns, actions parsed and executed on instances of its own, and its score."""

from __future__ import annotations

import json
from typing import Any

from coevolve_lab.environments.bfcl import official
from coevolve_lab.environments.bfcl.api import Apis
from coevolve_lab.environments.bfcl.calls import Call, MalformedAction, parse_action
from coevolve_lab.environments.bfcl.scoring import Judge
from coevolve_lab.records import Task


class BFCLSession:
    """An episode of one task (protocol: ``environments.base.Session``).

    ``apis`` holds the live instances, ``judge`` our own verdict so far. An action with calls executes them and is
    answered by their results, one per line in the order of the calls. An action without a call ends the user turn and
    is answered by the next user message. An action that looks like a call but cannot be read is answered by an error
    and fails the turn, whatever follows in it.
    """

    def __init__(
        self,
        task: Task,
        apis: Apis,
        tools: list[dict[str, Any]],
        judge: Judge,
        max_observation_chars: int = 4000,
        partial_credit: float = 0.0,
    ) -> None:
        self.task = task
        self.apis = apis
        self.tools = tools
        self.observation = task.turns[0] if task.turns else ""
        self.turn = 0
        self.done = False
        self.last_tools: tuple[str, ...] = ()
        self.last_failed = False
        self.judge = judge
        self._max_observation_chars = max_observation_chars
        self._partial_credit = partial_credit
        self._played: list[list[list[Call]]] = [[]]  # by user turn and action: the calls that were run
        self._readable = [True]  # by user turn
        self._finished = False
        self._score: float | None = None

    def step(self, action: str) -> tuple[str, bool]:
        """Play one action; returns (observation, done). Never raises on what a model wrote."""
        if self.done:
            self.last_tools, self.last_failed = (), True
            return _error("the conversation is over"), True
        try:
            calls = parse_action(action)
        except MalformedAction as problem:
            self._readable[-1] = False
            self.last_tools, self.last_failed = (), True
            return self._cut(_error(str(problem))), False
        self.last_tools = tuple(call.name for call in calls)
        self.last_failed = False
        if not calls:
            return self._end_turn()
        return self._cut(self._execute(calls)), False

    def score(self) -> float:
        """1.0 if the conversation was brought to its end and every user turn was right, else 0.0.

        Benchmark cases are judged by the official checker, others by ``scoring.Judge``. With the environment's option
        ``partial_credit`` c > 0, a failed episode of a synthesized task scores c * progress() instead of 0.
        """
        if self._score is not None:
            return self._score
        score = self._judged()
        if self.done:
            self._score = score  # the official checker takes a millisecond
        return score

    def progress(self) -> float:
        """Share in [0, 1] of the results that the solution read which the agent obtained too."""
        return self.judge.progress()

    def close(self) -> None:
        self.done = True

    def _execute(self, calls: list[Call]) -> str:
        results = [self.apis.execute(call) for call in calls]
        for result in results:
            self.judge.saw(result.text, ran=not result.refused)
        self._played[-1].append([call for call, result in zip(calls, results, strict=True) if not result.refused])
        self.last_failed = any(result.failed for result in results)
        return "\n".join(result.text for result in results)

    def _end_turn(self) -> tuple[str, bool]:
        self.judge.end_turn(self.apis, self._readable[-1])
        self.turn += 1
        if self.turn >= len(self.task.turns):
            self.turn = max(len(self.task.turns) - 1, 0)
            self.done = self._finished = True
            return "", True
        self._played.append([])
        self._readable.append(True)
        return self.task.turns[self.turn], False

    def _judged(self) -> float:
        if self.task.origin == "benchmark":
            return float(self._finished and all(self._readable) and official.passes(self.task, self._played))
        return 1.0 if self.judge.solved() else self._partial_credit * self.judge.progress()

    def _cut(self, text: str) -> str:
        extra = len(text) - self._max_observation_chars
        return text if extra <= 0 else f"{text[: self._max_observation_chars]}... [{extra} more characters]"


def _error(reason: str) -> str:
    return json.dumps({"error": reason})
