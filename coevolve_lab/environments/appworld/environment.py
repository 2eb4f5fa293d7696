"""AppWorld as an environment: the benchmark's splits, and the worlds of its training tasks to explore."""

from __future__ import annotations

import random
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal

from coevolve_lab.environments.appworld import package, risks, tasks
from coevolve_lab.environments.appworld.docs import Api, read_apis
from coevolve_lab.environments.appworld.observed import Survey
from coevolve_lab.environments.appworld.processes import Processes, shared_processes
from coevolve_lab.environments.appworld.scripted import Walk
from coevolve_lab.environments.appworld.session import AppWorldSession
from coevolve_lab.environments.appworld.synthesized import Outcome, Reference, make_reference
from coevolve_lab.environments.base import Session
from coevolve_lab.errors import ConfigError, EnvironmentFailure
from coevolve_lab.records import Task

CACHED_REFERENCES = 4096
WAIT_SECONDS = 600.0  # for another session to be closed
LOOK_SECONDS = 0.2


class AppWorldEnvironment:
    """Environment, ScriptedWorld and RiskRules (``environments.base``) over AppWorld's apps.

    Splits: "train", "dev", "test_normal" and "test_challenge" are the benchmark's, with its own ids; "explore" holds
    the start states of "train" without requests. Benchmark tasks are scored by the package's own evaluation,
    synthesized ones as ``synthesized`` says; both in a process that agents cannot reach.

    world: "mini", generated at set-up (its scores are mini-world scores), or "real", the benchmark's data. workers:
    how many sessions can be open at once; one more is played at times, for solutions and surveys. guide: tell the
    agent how programs reach the apps; without it the first observation is the request alone. apps: those that the
    scripted explorer walks (None: all). explore_starts: how many start states "explore" has (None: one of each training
    task). step_seconds: deadline of one program. allow_missing: see ``WorkerPool``.
    Raises ConfigError for options that cannot be used and PrerequisiteError when something has to be installed first.
    """

    name = "appworld"

    def __init__(
        self,
        world: Literal["mini", "real"] = "mini",
        workers: int = 2,
        guide: bool = True,
        apps: Sequence[str] | None = None,
        explore_starts: int | None = None,
        step_seconds: float = 30.0,
        max_observation_chars: int = 4000,
        allow_missing: Sequence[str] = (),
    ) -> None:
        if world not in ("mini", "real"):
            raise ConfigError(f"world must be 'mini' or 'real', not {world!r}")
        if workers < 1 or step_seconds <= 0 or (explore_starts is not None and explore_starts < 1):
            raise ConfigError(
                f"workers, step_seconds and explore_starts must be above 0, not {workers}, {step_seconds} and "
                f"{explore_starts}"
            )
        self.world = world
        self.max_sessions = workers
        self._package = package.find()
        self.fingerprint = package.generator_fingerprint() if world == "mini" else package.VERSION
        self.root = self._package.root(world)
        self._guide = guide
        self._apps = None if apps is None else tuple(apps)
        self._explore_starts = explore_starts
        self._allow_missing = tuple(allow_missing)
        self._step_seconds = step_seconds
        self._max_observation_chars = max_observation_chars
        self._splits: dict[str, tuple[Task, ...]] = {}
        self._references: OrderedDict[tuple[Any, ...], Reference] = OrderedDict()
        self._docs: dict[str, Api] = {}
        self._walk: Walk | None = None
        self._processes: Processes | None = None
        self.waves = threading.Lock()  # see ``base.one_wave``
        self._room = threading.Lock()
        self._held: list[weakref.ref[AppWorldSession]] = []  # sessions that were opened
        self._lock = threading.RLock()
        self._spare = threading.Lock()

    def splits(self) -> list[str]:
        return list(tasks.SPLITS)

    def tasks(self, split: str) -> list[Task]:
        """Tasks of a split, always the same ones. Raises ConfigError for an unknown split."""
        if split not in tasks.SPLITS:
            raise ConfigError(f"AppWorld has no split '{split}'; it has {', '.join(tasks.SPLITS)}")
        with self._lock:
            if split not in self._splits:
                found = tasks.read_split(self.root, self.world, split)
                self._splits[split] = found[: self._explore_starts] if split == "explore" else found
        return list(self._splits[split])

    def open(self, task: Task) -> AppWorldSession:
        """A fresh session, which counts as open until it is closed.

        Raises EnvironmentFailure when the start state does not exist here, or when too many sessions stay open.
        """
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            with self._room:
                # one that was dropped, as when a notebook cell is run again, counts no more
                self._held = [held for held in self._held if (one := held()) is not None and not one.closed]
                if len(self._held) < self.max_sessions:
                    session = self._opened(task)
                    self._held.append(weakref.ref(session))
                    return session
            if time.monotonic() > deadline:
                raise EnvironmentFailure(
                    f"all {self.max_sessions} sessions of this environment were open for {WAIT_SECONDS:g} s: close "
                    "some (a conversation in a notebook holds one), or set environment.options.workers higher"
                )
            time.sleep(LOOK_SECONDS)

    def outcome(self, session: AppWorldSession) -> Outcome | None:
        """What a session's episode changed in the databases, and its answer; ends the episode.

        None if a program was stopped by its deadline, or did more than the APIs allow.
        """
        if not session.runs:  # so nothing can have changed, and no worker is needed to say so
            return Outcome({}, None)
        state = session.state()
        if state is None or state.tampering:
            return None
        return Outcome(self._running().scorer.diff(self._started_from(session.task), state), state.answer)

    def oracle(self, task: Task) -> str:
        """The world's own solution of the task that ``task`` starts from, as a program.

        Raises EnvironmentFailure where the data have none (the real ones keep those of the tests to themselves).
        """
        return tasks.read_oracle(self.root, self._started_from(task))

    def start(self, pool: str, rng: random.Random) -> Mapping[str, Any]:
        """A start state of "train", or, from the pool "held_out", of "dev"; the two share no scenario."""
        if pool not in ("train", "held_out"):
            raise ConfigError(f"there is no pool of starts '{pool}'; the pools are train and held_out")
        return rng.choice(self.tasks("explore" if pool == "train" else "dev")).start

    def tool_names(self, start: Mapping[str, Any]) -> Sequence[str]:
        """Tools that ``bind`` can call if something fits: the same from every start."""
        return self._walker().tools

    def bind(self, session: Session, tool: str, rng: random.Random) -> str | None:
        """A program that calls ``tool`` with what was observed from this session's start; None if nothing fits."""
        if not isinstance(session, AppWorldSession):
            raise TypeError(f"bind needs a session of this environment, not {type(session).__name__}")
        return self._walker().bind(session, tool, rng)

    def phrase(self, call: str, rng: random.Random) -> str:
        """What a user would say to ask for this call: the API's own description, and the arguments."""
        return self._walker().phrase(call, rng)

    def confusable(self, tool: str) -> Sequence[str]:
        """Tools that a careless agent takes for this one."""
        return self._walker().confusable(tool)

    def risks(self, solution: Sequence[Sequence[str]]) -> list[str]:
        """A sentence for each API of a solution that would be risky in a real world."""
        self._walker()
        return risks.call_risks(solution, self._docs)

    def _started_from(self, task: Task) -> str:
        name, world = task.start.get("task"), task.start.get("world")
        if not isinstance(name, str) or world != self.world:
            raise EnvironmentFailure(
                f"task {task.id} starts in world {world!r}, and this environment has world {self.world!r}: set "
                "environment.options.world"
            )
        return name

    def _reference(self, task: Task) -> Reference:
        """What the task's solution leaves, kept for the K sessions of each of its visits."""
        name = self._started_from(task)
        key = (name, task.solution)
        with self._lock:
            if key in self._references:
                self._references.move_to_end(key)
                return self._references[key]
        reference = make_reference(lambda: self._played(task))
        with self._lock:
            self._references[key] = reference
            while len(self._references) > CACHED_REFERENCES:
                self._references.popitem(last=False)
        return reference

    def _played(self, task: Task) -> Outcome | str:
        """What the task's solution leaves when it is played in a fresh world; text says why it cannot be judged.

        Raises EnvironmentFailure when the world breaks, or a program takes too long.
        """
        if not any(task.solution):
            return "there is no solution"
        with self._apart(task) as session:
            for number, action in enumerate((action for turn in task.solution for action in turn), start=1):
                _, done = session.step(action)
                if session.timed_out:  # perhaps for reasons that are not the solution's, so it is not held against it
                    raise EnvironmentFailure(f"the solution of task {task.id} did not end in time: {action[:200]}")
                if session.last_failed or session.runs < number:
                    return "an action of the solution fails, or holds no program"
                if done:
                    break
            return self.outcome(session) or "the solution does more than the APIs allow"

    def _surveyed(self, start: Mapping[str, Any]) -> AbstractContextManager[AppWorldSession]:
        return self._apart(Task("survey", self.name, ("",), start))

    @contextmanager
    def _apart(self, task: Task) -> Iterator[AppWorldSession]:
        """A session for this environment's own use, one at a time, however many others are open."""
        with self._spare:
            session = self._opened(task)
            try:
                yield session
            finally:
                session.close()

    def _walker(self) -> Walk:
        with self._lock:
            if self._walk is None:
                self._docs = read_apis(self.root)
                self._walk = Walk(self._docs, Survey(self._docs, self._surveyed), self._apps)
            return self._walk

    def _opened(self, task: Task) -> AppWorldSession:
        name = self._started_from(task)
        supervisor = tasks.read_specification(self.root, name).supervisor
        processes = self._running()

        def judge(session: AppWorldSession) -> float:
            if task.origin == "benchmark":
                state = session.state()
                return float(state is not None and processes.scorer.score(name, state).success)
            outcome = self.outcome(session)
            return float(outcome is not None and self._reference(task).solved_by(outcome))

        return AppWorldSession(
            task,
            lambda: processes.pool.open(name),
            supervisor,
            judge,
            guide=self._guide,
            max_observation_chars=self._max_observation_chars,
            step_seconds=self._step_seconds,
        )

    def _running(self) -> Processes:
        """The processes, started on first use: an environment that is only looked at starts none."""
        with self._lock:
            if self._processes is None:
                self._processes = shared_processes(self._package, self.root, self._allow_missing)
            return self._processes
