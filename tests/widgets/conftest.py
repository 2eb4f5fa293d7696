"""One finished toy run for all widget tests; ``own_run`` is a copy that a test may go on with."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from coevolve_lab import CoEvolve
from tests.loop_world import new_run


@pytest.fixture(scope="package")
def finished_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three rounds: revisited tasks, signals of every kind, accepted and discarded drafts."""
    folder = tmp_path_factory.mktemp("widgets") / "finished"
    cache = tmp_path_factory.getbasetemp() / "warm-starts"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COEVOLVE_CACHE", str(cache))
        with new_run(folder, rounds=3) as run:
            run.rounds()
    return folder


@pytest.fixture
def finished(finished_dir: Path) -> Iterator[CoEvolve]:
    """Only looked at."""
    with CoEvolve.open(finished_dir, progress=False) as run:
        yield run


@pytest.fixture
def own_run(finished_dir: Path, tmp_path: Path) -> Iterator[CoEvolve]:
    """A copy that may be changed."""
    shutil.copytree(finished_dir, tmp_path / "own")
    with CoEvolve.open(tmp_path / "own", progress=False) as run:
        yield run
