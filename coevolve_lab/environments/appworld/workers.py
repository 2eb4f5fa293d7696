"""A pool of workers: every episode is played by processes of its own, which end with it.

An episode has a world process (databases and APIs, trusted) and a code process (what the agent writes, locked down;
``inside/sandbox.py`` has the walls). They are forks of a server that is always warm, so nothing leaks from one episode
to the next, a hung or killed one costs a fork, and the answers to the tasks are in none of them.
"""

from __future__ import annotations

import itertools
import re
import shutil
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from coevolve_lab.environments.appworld.package import AppWorldPackage
from coevolve_lab.environments.appworld.server import ForkServer, Process, ProcessGone
from coevolve_lab.errors import ConfigError, EnvironmentFailure

OPEN_SECONDS = 60.0
WAIT_SECONDS = 600.0
FINISH_SECONDS = 60.0
SLACK_SECONDS = 20.0  # beyond a block's own time, until its world process is given up
OUTPUT_CHARS = 200_000
MAX_INTERACTIONS = 1000  # the package's own default
_TASK_ID = re.compile(r"[A-Za-z0-9]+_[0-9]+")


@dataclass(frozen=True)
class Execution:
    """What became of one block of code. calls: "app.api" of every API call that reached the world, in order.

    failed: it raised, could not be read, or was stopped. done: the episode is over (the task was completed, or the
    code process had to be ended). timed_out: it was stopped at its deadline and did not obey.
    """

    output: str
    failed: bool
    done: bool
    timed_out: bool = False
    calls: tuple[str, ...] = ()


@dataclass(frozen=True)
class EpisodeState:
    """How an episode ended: the databases as the package saves them, in ``folder``, which lives until the episode is
    closed. tampering: what the code tried beyond calling APIs, in words; such an episode is a failure.
    """

    folder: Path
    answer: str | None
    completed: bool
    tampering: tuple[str, ...] = ()


class Episode:
    """One task being played. Used by one thread; ``close`` it, whatever happened."""

    def __init__(self, pool: WorkerPool, process: Process, folder: Path) -> None:
        self._pool, self._process, self._folder = pool, process, folder
        self._state: EpisodeState | None = None
        self._freed = False

    def execute(self, code: str, seconds: float = 100.0) -> Execution:
        """Run a block of code in the episode's shell; it is stopped after ``seconds`` and ended soon after that.

        Raises EnvironmentFailure when the world breaks, never for what the code does.
        """
        answer = self._process.ask({"execute": code, "seconds": seconds}, seconds + SLACK_SECONDS)
        calls = tuple(_plain(call) for call in answer["calls"])
        return Execution(_plain(answer["output"]), answer["failed"], answer["done"], answer["timed_out"], calls)

    def finish(self) -> EpisodeState:
        """Stop the code, save the databases, and free the worker. May be called again, but nothing can be executed.

        Raises EnvironmentFailure when the world breaks, or the episode was closed unfinished.
        """
        if self._state is None:
            answer = self._process.ask({"finish": True}, FINISH_SECONDS)
            said = None if answer["answer"] is None else _plain(answer["answer"])
            tampering = tuple(_plain(words) for words in answer["tampering"])
            self._state = EpisodeState(self._folder / "dbs", said, answer["completed"], tampering)
            self._free()
        return self._state

    def close(self) -> None:
        """End the episode's processes, free its worker and remove its folder. May be called again."""
        self._free()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _free(self) -> None:
        if not self._freed:
            self._freed = True
            self._process.kill()
            self._pool._release()

    @property
    def pid(self) -> int:
        """Process id of the world process, for those who measure or break it."""
        return self._process.pid


class WorkerPool:
    """Plays up to ``size`` episodes at once on the tasks under ``root/data``. Thread-safe; close it when done.

    allow_missing: walls that may be lacking (``server.WALLS``); without this a machine that cannot lock agents' code in
    is refused. Raises PrerequisiteError and EnvironmentFailure as ``ForkServer`` does.
    """

    def __init__(
        self,
        package: AppWorldPackage,
        root: Path,
        size: int = 2,
        *,
        allow_missing: Sequence[str] = (),
        output_chars: int = OUTPUT_CHARS,
    ) -> None:
        if size < 1:
            raise ConfigError(f"a pool needs at least one worker, not {size}")
        self._output_chars = output_chars
        self._free = threading.Semaphore(size)
        self._numbers = itertools.count()
        self._server = ForkServer(package, allow_missing=allow_missing)
        self._data = self._server.runtime / "data"
        try:
            _without_answers(root / "data", self._data)
        except OSError as error:
            self.close()
            raise EnvironmentFailure(f"the world in {root} cannot be read: {error}") from error

    @property
    def server(self) -> ForkServer:
        return self._server

    def open(self, task_id: str, seconds: float = WAIT_SECONDS) -> Episode:
        """A fresh episode of a task, as soon as a worker is free.

        Raises EnvironmentFailure for an unknown task, when none gets free within ``seconds``, or when it cannot start.
        """
        if not _TASK_ID.fullmatch(task_id) or not (self._data / "tasks" / task_id).is_dir():
            raise EnvironmentFailure(f"this world of AppWorld has no task '{task_id[:100]}'")
        if not self._free.acquire(timeout=seconds):
            raise EnvironmentFailure(f"no AppWorld worker got free within {seconds:.0f} s; close episodes, or add some")
        try:
            try:
                return self._start(task_id)
            except ProcessGone:  # its server was killed just then; there is another
                return self._start(task_id)
        except BaseException:
            self._release()
            raise

    def close(self) -> None:
        """End all processes, of open episodes too. May be called again."""
        self._server.close()

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self, task_id: str) -> Episode:
        folder = self._server.runtime / "episodes" / str(next(self._numbers))
        folder.mkdir(parents=True)
        try:
            (folder / "data").symlink_to(self._data)
            process = self._server.spawn("world", self._job(task_id, folder))
            try:
                process.hear(OPEN_SECONDS)
            except BaseException:
                process.kill()
                raise
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return Episode(self, process, folder)

    def _job(self, task_id: str, folder: Path) -> dict[str, Any]:
        return {
            "task": task_id,
            "root": str(folder),
            "dbs": str(folder / "dbs"),
            "walls": self._server.walls,
            "output_chars": self._output_chars,
            "max_interactions": MAX_INTERACTIONS,
        }

    def _release(self) -> None:
        self._free.release()


def _plain(text: str) -> str:
    """The text without halves of surrogate pairs, which JSON lets through and no file or screen takes."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _without_answers(data: Path, place: Path) -> None:
    """Make ``place`` a copy of a data folder, by links, in which the tasks have no ground truth."""
    (place / "tasks").mkdir(parents=True)
    for name in ("api_docs", "base_dbs"):
        (place / name).symlink_to((data / name).resolve())
    for task in sorted((data / "tasks").iterdir()):
        (place / "tasks" / task.name).mkdir()
        for name in ("specs.json", "dbs"):
            (place / "tasks" / task.name / name).symlink_to((task / name).resolve())
