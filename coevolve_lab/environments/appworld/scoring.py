"""Scores of AppWorld episodes: the package's own evaluation, in processes that hold the answers and no agent's code.

A score is made from the databases that a world process saved, which only API calls have changed. Every score has a
process of its own (``inside/score.py``), forked from a server in which no agent's code ever runs.
"""

from __future__ import annotations

import itertools
import shutil
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from coevolve_lab.environments.appworld.package import AppWorldPackage
from coevolve_lab.environments.appworld.server import WALLS, ForkServer, ProcessGone
from coevolve_lab.environments.appworld.workers import EpisodeState
from coevolve_lab.errors import EnvironmentFailure

SCORE_SECONDS = 120.0


@dataclass(frozen=True)
class Report:
    """One evaluation: passed counts requirements that were met, failed holds the texts of the others.

    success is the package's own, unless something was tampered with: then it is False, and ``failed`` says so.
    """

    success: bool
    passed: int
    failed: tuple[str, ...]


class Scorer:
    """Scores episodes on the tasks under ``root/data``. Thread-safe; close it when done.

    server: one to use, for instance that of a pool, which saves seconds and memory; else it starts its own, and closes
    it. Raises EnvironmentFailure when that does not start.
    """

    def __init__(self, package: AppWorldPackage, root: Path, server: ForkServer | None = None) -> None:
        self._data = (root / "data").resolve()
        self._numbers = itertools.count()
        self._owns_server = server is None
        # No agent's code runs in these processes, so this machine may lack any wall.
        self._server = server or ForkServer(package, allow_missing=WALLS)

    def score(self, task_id: str, episode: EpisodeState) -> Report:
        """The evaluation of an episode that ``finish`` has ended, before it is closed.

        Raises EnvironmentFailure when the package's evaluation breaks, unless the episode was tampered with.
        """
        try:
            answer = self._ask({"score": task_id, "dbs": str(episode.folder)})
        except EnvironmentFailure:
            if not episode.tampering:
                raise
            answer = {"success": False, "passed": 0, "failed": ["the databases cannot be evaluated"]}
        failed = tuple(str(requirement) for requirement in answer["failed"])
        failed += tuple(f"(tampering) {words}" for words in episode.tampering)
        return Report(bool(answer["success"]) and not episode.tampering, int(answer["passed"]), failed)

    def diff(self, task_id: str, episode: EpisodeState) -> dict[str, Any]:
        """What the episode changed in the databases that the task starts from; {} when nothing.

        {app: {model: {"added": [row], "removed": [row], "changed": [[row before, row after]]}}}; rows are {field:
        value}, sorted, without the package's hash of them. Equal for equal changes. The model supervisor.Task, which
        holds status and answer, is left out. Raises EnvironmentFailure when the databases cannot be read.
        """
        return dict(self._ask({"diff": task_id, "dbs": str(episode.folder)})["changes"])

    def close(self) -> None:
        """End its server, if it is its own. May be called again."""
        if self._owns_server:
            self._server.close()

    def __enter__(self) -> Scorer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._ask_once(request)
        except ProcessGone:  # its server was killed just then; there is another
            return self._ask_once(request)

    def _ask_once(self, request: dict[str, Any]) -> dict[str, Any]:
        folder = self._server.runtime / "scores" / f"{id(self)}-{next(self._numbers)}"
        folder.mkdir(parents=True)
        try:
            (folder / "data").symlink_to(self._data)
            process = self._server.spawn("score", {"root": str(folder)})
            try:
                return process.ask(request, SCORE_SECONDS)
            finally:
                process.kill()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
