"""The processes of a world, shared by all environments of it in this Python: starting them costs ten CPU-seconds."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from pathlib import Path

from coevolve_lab.environments.appworld.package import AppWorldPackage
from coevolve_lab.environments.appworld.scoring import Scorer
from coevolve_lab.environments.appworld.workers import WorkerPool

MOST_EPISODES = 1024  # of all environments together; each keeps to its own number of workers

_lock = threading.Lock()


class Processes:
    """What plays the episodes of a world and what scores them. They end with the last environment that holds them."""

    def __init__(self, pool: WorkerPool, scorer: Scorer) -> None:
        self.pool = pool
        self.scorer = scorer


_of_worlds: weakref.WeakValueDictionary[tuple[Path, tuple[str, ...]], Processes] = weakref.WeakValueDictionary()


def shared_processes(package: AppWorldPackage, root: Path, allow_missing: Sequence[str] = ()) -> Processes:
    """The processes of the world in ``root``, started if no environment has them yet.

    Raises PrerequisiteError and EnvironmentFailure as ``WorkerPool`` does.
    """
    key = (root, tuple(allow_missing))
    with _lock:
        found = _of_worlds.get(key)
        if found is None:
            pool = WorkerPool(package, root, MOST_EPISODES, allow_missing=allow_missing)
            found = Processes(pool, Scorer(package, root, server=pool.server))
            weakref.finalize(found, pool.close)
            _of_worlds[key] = found
        return found


def share(processes: Processes, root: Path, allow_missing: Sequence[str] = ()) -> None:
    """Let environments of the world in ``root`` use processes that somebody else started and ends."""
    with _lock:
        _of_worlds[root, tuple(allow_missing)] = processes
