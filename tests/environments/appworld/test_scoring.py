"""Scores are the package's own, made from saved databases alone; what changed is told row by row."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from coevolve_lab.environments.appworld.package import AppWorldPackage
from coevolve_lab.environments.appworld.scoring import Scorer
from coevolve_lab.environments.appworld.workers import EpisodeState, WorkerPool
from coevolve_lab.errors import EnvironmentFailure

pytestmark = pytest.mark.appworld


@pytest.fixture(scope="module")
def task(appworld: AppWorldPackage) -> str:
    return (appworld.mini_root / "data" / "datasets" / "train.txt").read_text().split()[0]


@pytest.fixture(scope="module")
def solved(appworld: AppWorldPackage, pool: WorkerPool, task: str) -> Iterator[EpisodeState]:
    code = (appworld.mini_root / "data" / "tasks" / task / "ground_truth" / "solution.py").read_text()
    episode = pool.open(task)
    try:
        episode.execute(f"{code}\nsolution(apis, None)", 100.0)
        yield episode.finish()
    finally:
        episode.close()


def test_a_solution_passes_and_its_changes_are_told(scorer: Scorer, task: str, solved: EpisodeState) -> None:
    report = scorer.score(task, solved)
    assert (report.success, report.failed) == (True, ())
    assert report.passed > 0
    changes = scorer.diff(task, solved)
    assert changes
    assert changes == scorer.diff(task, solved)
    for models in changes.values():
        for change in models.values():
            assert change.keys() == {"added", "removed", "changed"}
            assert all("id" in row for row in [*change["added"], *change["removed"]])
            assert all(before["id"] == after["id"] and before != after for before, after in change["changed"])


def test_doing_nothing_fails_and_changes_nothing(pool: WorkerPool, scorer: Scorer, task: str) -> None:
    episode = pool.open(task)
    try:
        state = episode.finish()
        assert not scorer.score(task, state).success
        assert scorer.diff(task, state) == {}
        assert (state.completed, state.answer) == (False, None)
    finally:
        episode.close()


def test_what_was_tampered_with_fails_whatever_it_reached(scorer: Scorer, task: str, solved: EpisodeState) -> None:
    report = scorer.score(task, dataclasses.replace(solved, tampering=("os.kill (1, 9)",)))
    assert not report.success
    assert report.failed == ("(tampering) os.kill (1, 9)",)


def test_only_plain_files_are_taken_for_databases(
    scorer: Scorer, task: str, solved: EpisodeState, tmp_path: Path
) -> None:
    folder = tmp_path / "dbs"
    shutil.copytree(solved.folder, folder)
    (folder / "spotify.jsonl").unlink()
    (folder / "spotify.jsonl").symlink_to(solved.folder / "spotify.jsonl")
    with pytest.raises(EnvironmentFailure, match=r"spotify\.jsonl is no file of a saved episode"):
        scorer.score(task, dataclasses.replace(solved, folder=folder))
