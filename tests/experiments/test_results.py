"""What the finished runs of a plan hold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from coevolve_lab.evaluation import sgc
from coevolve_lab.evaluation.metrics import by_scenario
from coevolve_lab.experiments.plan import Plan, expand
from coevolve_lab.experiments.results import SCORES, Results, collect
from coevolve_lab.records import Evaluation
from coevolve_lab.store import RunReader
from tests.experiments.conftest import AFTER, CONFIGS, EXPERIMENT, as_if
from tests.experiments.invented import STEPS, invent


def test_what_is_missing_is_named_and_in_no_frame(found: Results) -> None:
    assert [(cell.arm, cell.seed) for cell in found.missing] == [("uniform", 2)]
    assert found.rows == ["fixed", "uniform", "feedback"]
    assert found.columns == ["here", "messages"]
    assert found.scores.filter(row="uniform", test=True)["seed"].to_list() == [0, 1]


def test_a_score_is_the_last_evaluation_beside_the_one_before_training(found: Results) -> None:
    cell = next(cell for cell in found.cells if cell.arm == "fixed")
    played = found.reader(cell).records(Evaluation, "split = 'held_out'")
    first, last = min(played, key=lambda e: e.step), max(played, key=lambda e: e.step)
    row = found.scores.row(
        by_predicate=(pl.col("arm") == "fixed") & (pl.col("seed") == cell.seed) & pl.col("test"), named=True
    )
    assert (row["score"], row["before"], row["step"]) == (last.score, first.score, 2 * STEPS)
    assert (row["row"], row["column"], row["environment"], row["method"]) == ("fixed", "here", "bfcl", "grpo")
    assert Path(row["run_dir"]) == found.reader(cell).run_dir


def test_splits_for_choosing_are_marked_and_were_not_played_before(found: Results) -> None:
    valid = found.scores.filter(split="validation")
    assert valid.height == len(found.cells)
    assert not valid["test"].any()
    assert valid["before"].null_count() == valid.height


def test_another_world_stands_in_its_own_column(found: Results) -> None:
    there = found.scores.filter(column="messages")
    assert there["row"].unique().to_list() == ["feedback"]
    assert there.select("split", "test").unique().rows() == [("held_out", True)]
    assert found.curves["column"].unique().to_list() == ["here"]


def test_curves_have_all_evaluations_of_the_reported_split(found: Results) -> None:
    one = found.curves.filter(row="feedback", seed=1)
    assert one["step"].to_list() == [0, STEPS, 2 * STEPS]
    assert found.curves["split"].unique().to_list() == ["held_out"]


def test_a_place_has_its_runs_by_seed(found: Results) -> None:
    assert list(found.by_seed("uniform", "here")) == [0, 1]
    assert found.by_seed("uniform", "messages") == {}
    valid = found.by_seed("fixed", "here", "validation")
    assert {one.split for one in valid.values()} == {"validation"}
    assert len(found.evaluation_tasks(valid[0])) == len(valid[0].last.outcomes)


def test_rows_and_columns_of_the_experiment_override_names(plan: Plan, runs: Path) -> None:
    renamed = collect(as_if(plan, "table 3", {"fixed": "synthetic_data"}), runs)
    assert renamed.rows == ["synthetic_data", "uniform", "feedback"]
    assert renamed.columns == ["bfcl", "messages"]


def test_a_run_that_lacks_a_split_is_not_finished(plan: Plan, runs: Path) -> None:
    more = replace(plan, cells=tuple(replace(cell, splits=(*cell.splits, "test")) for cell in plan.cells))
    assert collect(more, runs).cells == ()


@pytest.mark.parametrize("asked", [("held_out",), ("held_out", "validation")])
def test_splits_that_only_another_experiment_asked_for_are_not_shown(
    plan: Plan, runs: Path, asked: tuple[str, ...]
) -> None:
    fewer = replace(plan, cells=tuple(replace(cell, splits=asked) for cell in plan.cells))
    assert set(collect(fewer, runs).scores["split"]) == set(asked)


def test_nothing_finished_gives_empty_frames(plan: Plan, tmp_path: Path) -> None:
    nothing = collect(plan, tmp_path)
    assert (nothing.scores.schema, nothing.scores.height, nothing.curves.height) == (SCORES, 0, 0)
    assert len(nothing.missing) == len(plan.cells)


def test_columns_about_one_run_report_their_own_split_and_metric(tmp_path: Path) -> None:
    columns = {
        "tasks": {"of": "bfcl"},
        "scenarios": {"of": "bfcl", "metric": "sgc"},
        "others": {"of": "bfcl", "split": "validation"},
    }
    experiment = EXPERIMENT.model_validate(
        {
            "name": "columns",
            "title": "t",
            "arms": {"fixed": {"method": "grpo"}},
            "environments": {
                name: {**column, "initial": {"environment": {"options": {"held_out_tasks": 8}}}}
                for name, column in columns.items()
            },
        }
    )
    plan = expand(experiment, "smoke", CONFIGS, seeds=[0])
    invent(plan, tmp_path, AFTER)
    found = collect(plan, tmp_path, "words")
    (stored,) = {cell.key for cell in found.cells}
    last = {e.split: e for e in RunReader(tmp_path / stored).records(Evaluation) if e.step == 2 * STEPS}
    shown = {row["column"]: row for row in found.scores.iter_rows(named=True)}
    assert found.scores["test"].all()
    assert shown["tasks"]["score"] == last["held_out"].score
    assert shown["others"]["score"] == last["validation"].score
    assert shown["scenarios"]["score"] == pytest.approx(sgc(last["held_out"].outcomes) / 100)
    assert shown["scenarios"]["tasks"] == len(by_scenario(last["held_out"].outcomes))
    for one in found.played:
        if one.column != "scenarios":
            assert {task.id for task in found.evaluation_tasks(one)} == set(one.last.outcomes)
