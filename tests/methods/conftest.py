"""One run of the toy world with its D_0 and an evaluation before training, which every method goes on from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coevolve_lab import CoEvolve
from coevolve_lab.methods import Method, find
from tests.loop_world import new_run, warm_cache  # noqa: F401  (a fixture)

ROUNDS = 2
TESTED = 12  # evaluation tasks


@pytest.fixture(scope="package")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CoEvolve]:
    """Round 0, and nothing else. Only forked."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COEVOLVE_CACHE", str(tmp_path_factory.getbasetemp() / "warm-starts"))
        small = {
            "environment": {"options": {"size": TESTED}},
            "rollout": {"tasks_per_step": 3},
            "evolution": {"initial_tasks": 9, "contexts_per_round": 4},
        }
        run = new_run(tmp_path_factory.mktemp("begun") / "run", rounds=ROUNDS, **small)
        run.seed_tasks()
        run.evaluate()
        run.close()
        yield run


@pytest.fixture(scope="package")
def played(begun: CoEvolve, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], CoEvolve]:
    """played(method): a finished run of it. Only looked at."""
    runs: dict[str, CoEvolve] = {}

    def play(name: str) -> CoEvolve:
        if name not in runs:
            method = find(name)
            runs[name] = run = begin(begun, method, tmp_path_factory.mktemp(name) / "run")
            method.play(run)
            run.close()
        return runs[name]

    return play


def begin(begun: CoEvolve, method: Method, folder: Path) -> CoEvolve:
    """A run of the method that shares D_0 and the evaluation before training with all others."""
    return begun.fork(0, folder, **method.changes)
