"""Environments of the mini world for tests, on the one warm server of this folder's ``conftest``."""

from __future__ import annotations

from typing import Any

from coevolve_lab import environments
from coevolve_lab.environments.appworld.environment import AppWorldEnvironment
from coevolve_lab.environments.appworld.package import AppWorldPackage
from coevolve_lab.environments.appworld.processes import Processes, share
from coevolve_lab.environments.appworld.scoring import Scorer
from coevolve_lab.environments.appworld.workers import WorkerPool


def mini_world(appworld: AppWorldPackage, pool: WorkerPool, scorer: Scorer, **options: Any) -> AppWorldEnvironment:
    """An environment of the mini world that starts no server of its own."""
    processes = Processes(pool, scorer)
    share(processes, appworld.mini_root)
    made = environments.make("appworld", **{"workers": 1, **options})
    assert isinstance(made, AppWorldEnvironment)
    assert made._running() is processes  # which also keeps them alive
    return made
