"""A step's rollouts, drawn before they are sampled; and sampled ahead, by a server, while this process trains.

What samples ahead is a thread that plays and nothing else. It touches neither the model, nor the run's records, nor its
counters: whoever takes the batch does what is to be done with it, as if it had been sampled there and then.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from dataclasses import dataclass
from functools import partial

from coevolve_lab.config import Config
from coevolve_lab.environments.base import Environment
from coevolve_lab.policy.chat import ChatFormat
from coevolve_lab.policy.engine import Engine
from coevolve_lab.policy.rollout import play
from coevolve_lab.policy.vllm_engine import VllmEngine
from coevolve_lab.policy.vllm_pinned import Pinned
from coevolve_lab.records import Task, Trajectory

Progress = Callable[[int], None]
_LOOK_SECONDS = 0.2  # between two looks at how far it is


@dataclass(frozen=True)
class Draw:
    """One batch of training rollouts before it is sampled: which tasks, under which ids (``label``), by which seed."""

    tasks: tuple[Task, ...]
    label: str
    seed: int
    round: int
    step: int

    def play(
        self, environment: Environment, chat: ChatFormat, config: Config, engine: Engine, progress: Progress
    ) -> list[Trajectory]:
        """K trajectories of each task, at the training temperature."""
        return play(
            environment,
            self.tasks,
            engine,
            chat,
            config.rollout,
            group_size=config.rollout.group_size,
            temperature=config.rollout.temperature,
            max_steps=config.environment.max_steps,
            seed=self.seed,
            label=self.label,
            round=self.round,
            step=self.step,
            progress=progress,
        )


class Ahead:
    """A batch in the making, from ``begin`` to ``take`` or ``recall``. play: given an engine and a progress callback,
    plays it; pinned: what it samples from."""

    def __init__(self, pinned: Pinned, play: Callable[[Engine, Progress], list[Trajectory]]) -> None:
        self._pinned, self._play = pinned, play
        self._done = 0  # episodes
        self._outcome: Future[list[Trajectory]] = Future()
        self._thread = threading.Thread(target=self._work, name="coevolve-ahead", daemon=True)

    @property
    def spoiled(self) -> str:
        """Why the batch is of no use, if so: see ``Pinned``."""
        return self._pinned.spoiled

    def begin(self) -> None:
        self._thread.start()

    def take(self, progress: Progress) -> list[Trajectory]:
        """The batch, waited for; what playing it raised is raised here. Of one that is spoiled, some is missing.

        Interrupted, it goes on: call this again, or ``recall``.
        """
        shown = 0
        while not self._outcome.done():
            wait_for([self._outcome], timeout=_LOOK_SECONDS)
            done = self._done
            progress(done - shown)
            shown = done
        progress(self._done - shown)
        self._thread.join()
        return self._outcome.result()

    def recall(self) -> None:
        """Give it up: returns when nothing of it is in flight and its thread has ended. May be called again."""
        self._pinned.recall()
        if self._thread.ident is None:  # it never began
            self._pinned.let_go()
        else:
            self._thread.join()

    def _work(self) -> None:
        try:
            try:
                batch = self._play(self._pinned, self._count)
            finally:
                self._pinned.let_go()
        except BaseException as error:
            self._outcome.set_exception(error)
        else:
            self._outcome.set_result(batch)

    def _count(self, episodes: int) -> None:
        self._done += episodes


class Lookahead:
    """The one batch of a run that is sampled ahead of its step, if there is one."""

    def __init__(self) -> None:
        self._begun: tuple[Draw, Ahead] | None = None

    @property
    def draw(self) -> Draw | None:
        """What is sampled ahead now."""
        return self._begun[0] if self._begun else None

    def begin(self, draw: Draw, engine: VllmEngine, environment: Environment, chat: ChatFormat, config: Config) -> None:
        """Sample a draw in the background, with the version that the engine has now; gives up what was begun before."""
        self.recall()
        ahead = Ahead(engine.pin(), partial(draw.play, environment, chat, config))
        self._begun = draw, ahead
        ahead.begin()

    def take(self, draw: Draw, progress: Progress) -> list[Trajectory] | None:
        """The batch if it was begun for this very draw and nothing spoiled it, which is warned about; else None, and
        nothing is sampled ahead any more."""
        if self._begun is None or self._begun[0] != draw:
            self.recall()
            return None
        _, ahead = self._begun
        batch = ahead.take(progress)
        self._begun = None
        if not ahead.spoiled:
            return batch
        warnings.warn(f"step {draw.step} was sampled ahead in vain and is sampled again: {ahead.spoiled}", stacklevel=3)
        return None

    def recall(self) -> None:
        """Nothing is sampled ahead any more."""
        if self._begun is not None:
            self._begun[1].recall()
            self._begun = None
