"""Branches over the same axes: what differs, where they part, who solves what."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from coevolve_lab import CoEvolve, compare
from coevolve_lab import records as r
from coevolve_lab.config import load_config
from coevolve_lab.evaluation import pass_rate
from coevolve_lab.evaluation.paired import paired
from coevolve_lab.store import RunReader, RunWriter, copy_until
from coevolve_lab.widgets import comparison_queries as queries
from coevolve_lab.widgets.comparison import MOST_TASKS, Comparison
from coevolve_lab.widgets.progress_queries import look
from tests.widgets.invented_run import KINDS, STEPS_PER_ROUND, write_rounds


@pytest.fixture
def main(tmp_path: Path) -> Path:
    return write_rounds(tmp_path / "main", range(6), 0.04)


@pytest.fixture
def branch(main: Path) -> Path:
    """Parts from ``main`` after round 2, without rare patterns, and is two rounds behind."""
    config = load_config(RunReader(main).config, signals={"rare": False}, training={"learning_rate": 5e-6})
    copy_until(main, main.with_name("branch"), 2, config)
    return write_rounds(main.with_name("branch"), [3, 4], 0.0)


def view_of(*runs: object) -> Comparison:
    made = compare(*runs)
    assert isinstance(made, Comparison), made.error
    assert not made.error
    return made


def outcomes(run_dir: Path, step: int, split: str = "test") -> dict[str, float]:
    rows = RunReader(run_dir).sql(f"select outcomes from evaluations where step = {step} and split = '{split}'")
    return dict(json.loads(rows["outcomes"][0]))


def cells(html: str) -> list[str]:
    return [cell.split(">", 1)[1] for cell in html.replace("</td>", "<td").split("<td") if ">" in cell]


def test_a_real_fork_is_compared_with_where_it_came_from(own_run: CoEvolve) -> None:
    fork = own_run.fork(round=1, training={"learning_rate": 5e-3})
    with fork:
        fork.rounds(2)
        view = view_of(own_run, fork)
    assert "training.learning_rate" in view.head.value
    assert "up to round 1 (training step 2)" in view.head.value
    assert {"0.001", "0.005"} <= set(cells(view.head.value))
    traces = view.live.traces
    own, forked = (list(traces[f"raw {name}"].y) for name in (own_run.run_dir.name, fork.run_dir.name))
    assert forked[:2] == own[:2]
    assert (len(forked), len(own)) == (4, 6)


def test_only_settings_that_differ_are_listed(main: Path, branch: Path) -> None:
    rows = queries.config_differences([RunReader(run).config for run in (main, branch)])
    assert [(row[0], row[2]) for row in rows] == [("training.learning_rate", "5e-06"), ("signals.rare", "null")]
    assert queries.config_differences([{"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}]) == [
        ("a.c", "(absent)", "2", "(absent)")
    ]
    shutil.copytree(main, main.with_name("copy"))
    assert "The configs are the same" in view_of(main, main.with_name("copy")).head.value


def test_history_is_shared_by_content_and_not_by_names_or_ids(main: Path, branch: Path) -> None:
    readers = {run.name: RunReader(run) for run in (main, branch)}
    assert queries.shared_history(*readers.values()) == queries.Shared(2, 2 * STEPS_PER_ROUND)
    twin = write_rounds(main.with_name("twin"), range(6), 0.04)
    assert queries.shared_history(readers["main"], RunReader(twin)) is None
    copied = shutil.copytree(branch, main.with_name("copied"))  # no hard links
    assert queries.shared_history(readers["main"], RunReader(copied)) == queries.Shared(2, 2 * STEPS_PER_ROUND)
    write_rounds(branch, [4], 0.0, split="other")  # evaluated again afterwards: committed again
    assert queries.shared_history(RunReader(branch), RunReader(copied)) == queries.Shared(4, 4 * STEPS_PER_ROUND)


def test_the_shared_stretch_is_shaded_in_every_panel_with_an_axis(main: Path, branch: Path) -> None:
    view = view_of(main, branch)
    shapes = view.live.widget.layout.shapes
    assert len(shapes) == 8
    assert {shape.x1 for shape in shapes} == {2.0, 2.5, 2 * STEPS_PER_ROUND}
    twin = write_rounds(main.with_name("twin"), range(3), 0.04)
    assert len(view_of(main, twin).live.widget.layout.shapes) == 0


def test_curves_of_both_are_over_the_same_axes(main: Path, branch: Path) -> None:
    traces = view_of(main, branch).live.traces
    for run in (main, branch):
        reader, name = RunReader(run), run.name
        scores = reader.sql("select step, score, stderr from evaluations order by step")
        assert np.allclose(traces[f"score {name}"].y, scores["score"])
        assert np.allclose(traces[f"score {name}"].error_y.array, scores["stderr"])
        counts = reader.sql("select kind, round, count(*) as n from signals group by all order by round")
        for kind in KINDS:
            assert list(traces[f"{kind} {name}"].y) == counts.filter(kind=kind)["n"].to_list()
        assert sum(traces[f"all {name}"].y) == counts["n"].sum()
        assert traces[f"size {name}"].y[-1] == reader.table("tasks").height
        spent = reader.sql("select sum(seconds) as n from stage_costs where round > 0")["n"][0]
        assert traces[f"seconds {name}"].y[-1] == pytest.approx(spent, rel=1e-5)
        flat = reader.sql("select (groups_all_failed + groups_all_solved) / groups as n from updates order by step")
        assert np.allclose(traces[f"flat {name}"].y, flat["n"])
    for key in ("score", "all"):
        one, two = (traces[f"{key} {run.name}"] for run in (main, branch))
        assert (one.xaxis, one.yaxis) == (two.xaxis, two.yaxis)
    drawn = [traces[f"score {run.name}"] for run in (main, branch)]
    assert drawn[0].line.dash != drawn[1].line.dash
    assert drawn[0].marker.symbol != drawn[1].marker.symbol


def test_of_several_evaluations_at_one_step_the_last_is_shown_everywhere(main: Path, branch: Path) -> None:
    last = 5 * STEPS_PER_ROUND
    with RunWriter.open(main) as writer:
        for round, count, score in ((6, 0, 0.2), (7, 9, 0.4), (7, 10, 0.6)):
            found = (score, score / 10, 1, {"multi_turn_base_0": score})
            writer.append([r.Evaluation(f"trial-{count}", "test", last, round, last, *found, 1.0)])
            writer.commit(round)
    reader = RunReader(main)
    for evaluations in (look(reader).evaluations, queries.sides({"main": reader}, "test")[0].evaluations):
        assert evaluations["step"].to_list() == [STEPS_PER_ROUND * round for round in range(6)]
        assert evaluations.row(-1, named=True) == pytest.approx({"step": last, "score": 0.6, "stderr": 0.06})
    assert queries.scored(reader, "test").score == 0.6


def test_the_last_evaluations_are_crossed_task_by_task(main: Path, branch: Path) -> None:
    view = view_of(main, branch)
    before, after = outcomes(main, 25), outcomes(branch, 20)
    pair = paired(before, after)
    assert len(pair.only_first) > 2, "the invented runs should differ"
    shown = view.tables.value
    assert f"{pair.difference:+.3f} ± {pair.stderr:.3f}" in shown
    for scores in (before, after):
        assert f"{pass_rate(scores.values())[0]:.3f} ± 0.070" in shown
    assert f"{len(pair.only_first)} ({len(pair.only_first) / pair.tasks:.0%})" in shown
    assert ("&lt; 0.001" if pair.p_value < 0.001 else f"{pair.p_value:.3f}") in shown
    assert "different numbers of steps" in shown
    assert [list(row) for row in view.live.traces["crossed"].z] == [
        [pair.both / 40, len(pair.only_first) / 40],
        [len(pair.only_other) / 40, pair.neither / 40],
    ]
    for task in pair.only_first[: MOST_TASKS // 2]:
        assert task in cells(shown)
    assert "cd &gt; grep &gt; mv" in shown  # by who solved it
    assert "cd &gt; ls &gt; mv" in shown  # by who did not


def test_an_even_comparison_is_after_the_same_number_of_steps(main: Path, branch: Path) -> None:
    view = view_of(main, branch)
    assert [value for _, value in view.after.options][1:] == [20, 15, 10, 5, 0]
    view.after.value = 20
    pair = paired(outcomes(main, 20), outcomes(branch, 20))
    assert f"{pair.difference:+.3f} ± {pair.stderr:.3f}" in view.tables.value
    assert "different numbers of steps" not in view.tables.value
    view.after.value = 10
    assert "There are none." in view.tables.value  # they were still one


def test_smoothing_moves_the_line_and_keeps_the_raw_points(main: Path, branch: Path) -> None:
    view = view_of(main, branch)
    traces = view.live.traces
    raw = np.array(traces["raw main"].y)
    view.smoothing.value = 0.0
    assert np.allclose(traces["reward main"].y, raw)
    view.smoothing.value = 0.9
    assert not np.allclose(traces["reward main"].y, raw)
    assert np.allclose(traces["raw main"].y, raw)
    assert not view.error


def test_refresh_sees_what_a_running_run_has_done_since(main: Path, branch: Path) -> None:
    view = view_of(main, branch)
    count = len(view.live.widget.data)
    write_rounds(branch, [5], 0.04)
    view.again.click()
    assert not view.error
    assert list(view.live.traces["score branch"].x) == [0, 5, 10, 15, 20, 25]
    assert len(view.live.widget.data) == count
    assert "different numbers of steps" not in view.tables.value
    assert view.after.options[1][1] == 25


def test_no_common_split_is_said_and_the_rest_is_shown(main: Path, tmp_path: Path) -> None:
    other = write_rounds(tmp_path / "other", range(3), 0.04, split="hard", environment={"name": "another"})
    view = view_of(main, other)
    assert "No split has been evaluated in all" in view.tables.value
    assert "Different environments" in view.head.value
    assert len(view.live.traces["raw other"].y) == 10
    write_rounds(other, [3], 0.04)  # on "test", which both have now
    view.refresh()
    assert view.split.options == ("test",)
    assert "paired difference" in view.tables.value


def test_evaluations_without_a_common_task_are_not_compared(main: Path, tmp_path: Path) -> None:
    other = write_rounds(tmp_path / "other", range(3), 0.04, tasks=[f"else_{i}" for i in range(9)])
    view = view_of(main, other)
    assert "Not compared: the two evaluations have no task in common" in view.tables.value
    assert len(view.live.traces["score other"].y) == 3


def test_three_runs_are_each_compared_with_the_first(main: Path, branch: Path) -> None:
    twin = write_rounds(main.with_name("twin"), range(4), 0.1)
    view = view_of(main, branch, twin)
    assert "branch is the same as main up to round 2" in view.head.value
    assert "twin shares no round with main" in view.head.value
    assert len(view.live.traces["crossed"].z) == 4
    assert "Tasks that only main or only twin solves" in view.tables.value


def test_it_reads_without_widgets(main: Path, branch: Path) -> None:
    bundle = view_of(main, branch)._repr_mimebundle_()
    for part in ("up to round 2", "signals.rare", "paired difference to main", "multi_turn_base_"):
        assert part in bundle["text/plain"]
        assert part in bundle["text/html"]
    assert "cd > grep > mv" in bundle["text/plain"]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["main", "main"], "was given twice"),
        (["main", "nowhere"], "does not exist"),
        (["main", "a", "b", "c", "d"], "at most 4"),
    ],
)
def test_what_cannot_be_compared_is_said(main: Path, names: Sequence[str], said: str) -> None:
    view = compare(*(main.with_name(name) for name in names))
    assert said in view.error


def test_a_run_that_goes_away_is_said_and_what_was_shown_stays(main: Path, branch: Path) -> None:
    view = view_of(main, branch)
    shutil.rmtree(branch)
    view.again.click()
    assert "moved or deleted" in view.error
    assert "paired difference" in view.tables.value


def test_labels_take_as_many_folders_as_tell_them_apart() -> None:
    assert queries.labels([Path("/runs/a"), Path("/runs/b")]) == ["a", "b"]
    assert queries.labels([Path("/x/a"), Path("/y/a")]) == ["x/a", "y/a"]


def test_a_long_run_shares_points_and_keeps_its_rate(tmp_path: Path) -> None:
    rounds, each = range(1, 451), 3
    with RunWriter.create(tmp_path / "long", load_config({})) as writer:
        for round in rounds:
            writer.append([r.StageCost(round, "rollout", 2.0), r.Task(f"t{round}", "bfcl", ("q",), {}, round=round)])
            writer.append([r.Signal(f"s{round}-{i}", "rare", "t", "task", "g", round, 0, 0.5) for i in range(each)])
        writer.commit(rounds[-1])
    side = queries.sides({"long": RunReader(tmp_path / "long")}, None)[0]
    assert 100 < side.size.height <= queries.MOST_ROUNDS
    assert set(side.signals["n"][1:]) == {each}  # the first point has no round 0
    assert side.size["size"][-1] == len(rounds)
    assert side.seconds["seconds"][-1] == 2.0 * len(rounds)
