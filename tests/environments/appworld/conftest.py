"""The mini world with one warm server for all tests of this folder, and what to do about it when it is not there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coevolve_lab.environments.appworld import package
from coevolve_lab.environments.appworld.package import AppWorldPackage
from coevolve_lab.environments.appworld.scoring import Scorer
from coevolve_lab.environments.appworld.workers import WorkerPool


@pytest.fixture(scope="session")
def appworld() -> AppWorldPackage:
    return package.find()


@pytest.fixture(scope="session")
def pool(appworld: AppWorldPackage) -> Iterator[WorkerPool]:
    with WorkerPool(appworld, appworld.mini_root, size=2) as pool:
        yield pool


@pytest.fixture(scope="session")
def scorer(appworld: AppWorldPackage, pool: WorkerPool) -> Iterator[Scorer]:
    with Scorer(appworld, appworld.mini_root, pool.server) as scorer:
        yield scorer
