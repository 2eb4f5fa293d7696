"""What a run's folder says of how far it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from coevolve_lab.experiments.folders import is_finished, mark_finished
from coevolve_lab.experiments.plan import Plan


def test_a_run_is_finished_for_whoever_asks_for_no_more(plan: Plan, tmp_path: Path) -> None:
    run = replace(plan.runs[0], splits=("held_out",))
    more, other = replace(run, splits=("held_out", "validation")), replace(run, splits=("held_out", "explore"))
    assert not is_finished(run, tmp_path)
    (tmp_path / run.key).mkdir()
    for wanted in (more, other):
        assert not is_finished(wanted, tmp_path)
        mark_finished(wanted, tmp_path)
    assert all(is_finished(wanted, tmp_path) for wanted in (run, more, other))
    assert [path.name for path in (tmp_path / run.key).iterdir()] == ["experiment.json"]


def test_a_start_is_finished_once_it_is_marked(plan: Plan, tmp_path: Path) -> None:
    start = plan.starts[0]
    (tmp_path / start.key).mkdir()
    assert not is_finished(start, tmp_path)
    mark_finished(start, tmp_path)
    assert is_finished(start, tmp_path)
