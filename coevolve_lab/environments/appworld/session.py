"""One AppWorld episode: programs found in the agent's text and run in a worker, and the score of what they left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from coevolve_lab.environments.appworld.prompt import TOOLS, opening
from coevolve_lab.environments.appworld.workers import Episode, EpisodeState
from coevolve_lab.environments.programs import TOOL, UnreadableProgram, parsed, read_program
from coevolve_lab.records import Task


class AppWorldSession:
    """An episode of one task (protocol: ``environments.base.Session``).

    An action holds one program, which is run in the episode's worker and answered by its output. An action without a
    program ends the user turn, and with the last turn the episode; so does a program that completes the task. A program
    that runs out of time ends the episode as a failure, for its worker is gone.

    ``begin`` starts the worker, for the first program. ``judge`` says how well what the episode left solves the task,
    in [0, 1], and ends it.
    """

    def __init__(
        self,
        task: Task,
        begin: Callable[[], Episode],
        supervisor: Mapping[str, str],
        judge: Callable[[AppWorldSession], float],
        *,
        guide: bool = True,
        max_observation_chars: int = 4000,
        step_seconds: float = 30.0,
    ) -> None:
        self.task = task
        self.supervisor = supervisor
        self.tools: list[dict[str, Any]] = TOOLS
        self.observation = opening(task.turns[0] if task.turns else "", supervisor, guide)
        self.turn = 0
        self.done = False
        self.last_tools: tuple[str, ...] = ()
        self.last_failed = False
        self.runs = 0  # programs that were run
        self._begin = begin
        self._episode: Episode | None = None
        self._judge = judge
        self._max_observation_chars = max_observation_chars
        self._step_seconds = step_seconds
        self.timed_out = False  # whether a program did not end by itself
        self._closed = False
        self._state: EpisodeState | None = None
        self._score: float | None = None

    def step(self, action: str) -> tuple[str, bool]:
        """Play one action; returns (observation, done). Never raises on what a model wrote."""
        if self.done:
            self.last_tools, self.last_failed = (), True
            return "The episode is over.", True
        self.last_tools, self.last_failed = (), True
        try:
            program = read_program(action)
        except UnreadableProgram as problem:
            return f"Nothing was run: {problem}.", False
        if program is None:
            self.last_failed = False
            return self._end_turn()
        if parsed(program) is None:
            return "Nothing was run: the program is no valid Python.", False
        output = self.run(program)
        if self.last_failed and not self.last_tools:
            self.last_tools = (TOOL,)  # it could be read and was run, and failed before it called anything
        return self._cut(output), self.done

    def run(self, program: str) -> str:
        """Run a program in the episode as it is; returns its whole output. Sets ``last_tools`` and ``last_failed``."""
        self.runs += 1
        ran = self._playing().execute(program, self._step_seconds)
        self.last_tools = ran.calls
        self.last_failed = ran.failed or ran.timed_out
        self.timed_out = self.timed_out or ran.timed_out
        self.done = ran.done or ran.timed_out
        if ran.timed_out:
            return f"The program did not end within {self._step_seconds:g} seconds. The episode is over."
        return ran.output

    def score(self) -> float:
        """How well the episode solves its task, by execution; ends the episode. An attempt to forge it scores 0."""
        if self._score is None:
            self.done = True
            self._score = self._judge(self)
        return self._score

    def state(self) -> EpisodeState | None:
        """What the episode left, until the session is closed: databases and answer. Ends the episode.

        None if a program was stopped by its deadline, or if the session was closed before.
        """
        if self._state is None and not self.timed_out and not self._closed:
            self.done = True
            self._state = self._playing().finish()
        return self._state

    def close(self) -> None:
        if self._closed:
            return
        self.done = self._closed = True
        self._state = None
        if self._episode is not None:
            self._episode.close()

    @property
    def closed(self) -> bool:
        return self._closed

    def _playing(self) -> Episode:
        if self._episode is None:
            self._episode = self._begin()
        return self._episode

    def _end_turn(self) -> tuple[str, bool]:
        if self.turn + 1 >= len(self.task.turns):
            self.done = True
            return "", True
        self.turn += 1
        return self.task.turns[self.turn], False

    def _cut(self, text: str) -> str:
        extra = len(text) - self._max_observation_chars
        return text if extra <= 0 else f"{text[: self._max_observation_chars]}... [{extra} more characters were cut]"
