"""The view of an experiment that is being played: runs that wait, have begun, failed or are finished."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from coevolve_lab import records as r
from coevolve_lab.experiments import expand, load
from coevolve_lab.experiments.folders import FINISHED
from coevolve_lab.experiments.plan import Plan
from coevolve_lab.experiments.results import collect
from coevolve_lab.store import RunWriter
from coevolve_lab.widgets.experiment import ExperimentView, experiment_view
from coevolve_lab.widgets.view import Failed
from tests.experiments.invented import invent

CONFIGS = Path(__file__).resolve().parents[2] / "configs" / "experiments"


@pytest.fixture(scope="module")
def plan() -> Plan:
    """Two arms with two seeds."""
    table = load("table5", CONFIGS)
    few = table.model_copy(update={"arms": {name: table.arms[name] for name in ("all", "without_rare")}})
    return expand(few, "smoke", CONFIGS, seeds=(0, 1))


def of_seed(plan: Plan, seed: int) -> Plan:
    return dataclasses.replace(plan, cells=tuple(cell for cell in plan.cells if cell.seed == seed))


@pytest.fixture
def view(plan: Plan, tmp_path: Path) -> Iterator[ExperimentView]:
    made = experiment_view(plan, tmp_path, every=0)
    assert isinstance(made, ExperimentView), made.error
    yield made
    made.close()


def test_before_anything_is_played_all_runs_wait(view: ExperimentView, plan: Plan) -> None:
    assert "0 of 4 runs finished" in view.status_line.value
    assert view.table.value.count("waiting") == 6  # four runs and the two starts
    assert all(not len(trace.x) for trace in view.live.traces.values())
    assert plan.experiment.title in view.plain()[0]
    assert not view.error


def test_it_follows_runs_as_they_finish(view: ExperimentView, plan: Plan, tmp_path: Path) -> None:
    for seed in (0, 1):
        invent(of_seed(plan, seed), tmp_path, {"all": 0.9, "without_rare": 0.4})
        assert f"all: seed 0 finished, seed 1 {'finished' if seed else 'waiting'}" in view.plain()[0]
        view.refresh()  # what was only printed is new to the widgets
        assert not view.error
        assert f"{2 * seed + 2} of 4 runs finished" in view.status_line.value
        curves = collect(plan, tmp_path).curves
        for arm in ("all", "without_rare"):
            by_step = {step: group["score"].mean() for (step,), group in curves.filter(row=arm).group_by("step")}
            trace = view.live.traces[arm]
            assert list(trace.x) == sorted(by_step)
            assert list(trace.y) == pytest.approx([by_step[step] for step in sorted(by_step)], abs=1e-6)
            assert trace.name == f"{arm} ({'1 seed' if seed == 0 else '2 seeds'})"
    assert f"{curves.filter(row='all', seed=1)['score'][-1]:.1%}" in view.table.value


def test_a_run_that_has_begun_shows_its_round_and_its_scores(view: ExperimentView, plan: Plan, tmp_path: Path) -> None:
    cell = plan.runs[0]
    with RunWriter.create(tmp_path / cell.key, cell.config) as writer:
        writer.append([r.Evaluation("e0", "held_out", 0, 0, 0, 0.25, 0.1, 12, {}, 1.0)])
        writer.commit(0)
        view.refresh()
        assert "round 0 of 2 25.0%" in view.table.value
        writer.append([r.Evaluation("e1", "held_out", 1, 1, 1, 0.5, 0.1, 12, {}, 1.0)])
        writer.commit(1)
        view.refresh()
    assert "round 1 of 2 50.0%" in view.table.value
    assert list(view.live.traces["all"].y) == [0.25, 0.5]
    assert f"seed {cell.seed} round 1 of 2" in view.plain()[0]
    assert "0 of 4 runs finished" in view.status_line.value


def test_a_failed_run_says_why_and_a_warning_is_no_failure(view: ExperimentView, plan: Plan, tmp_path: Path) -> None:
    first, second = (tmp_path / f"{cell.key}.log" for cell in plan.runs[:2])
    first.write_text("loading\nEnvironmentError: the world said <b>no</b>\n")
    second.write_text("x.py:3: UserWarning: slow\n  warn()\n")
    view.refresh()
    assert "EnvironmentError: the world said &lt;b&gt;no" in view.table.value
    assert "<b>no" not in view.table.value
    assert view.table.value.count("failed") == 1
    assert "1 failed: the same call of play tries again" in view.status_line.value
    first.write_text("")  # which is what playing it again begins with
    view.refresh()
    assert "failed" not in view.table.value + view.status_line.value


def test_a_thread_follows_until_all_is_finished(plan: Plan, tmp_path: Path) -> None:
    view = experiment_view(plan, tmp_path, every=0.05)
    assert isinstance(view, ExperimentView)
    invent(plan, tmp_path, {"all": 0.9})
    for start in plan.starts:
        with RunWriter.create(tmp_path / start.key, start.config) as writer:
            writer.commit(0)
        (tmp_path / start.key / FINISHED).write_text('{"evaluated": []}')
    deadline = time.monotonic() + 60
    while any(thread.name == "experiment" for thread in threading.enumerate()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert view.finished
    assert "4 of 4 runs finished" in view.status_line.value
    assert view.table.value.count("finished") == 6
    view.close()


def test_a_newer_view_of_the_same_runs_takes_the_place(plan: Plan, tmp_path: Path) -> None:
    views = [experiment_view(given, tmp_path, every=60.0) for given in (plan, of_seed(plan, 0), plan)]
    try:
        said = ["a newer view follows this" in view.status_line.value for view in views]
        assert said == [True, False, False]
    finally:
        for view in views:
            view.close()


def test_what_is_no_plan_is_named(tmp_path: Path) -> None:
    made = experiment_view("table5", tmp_path)  # type: ignore[arg-type]
    assert isinstance(made, Failed)
    assert "expand(load('table5'), 'tiny')" in made.plain()[0]
