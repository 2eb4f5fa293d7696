"""The histogram counts what passes the filters, its bars choose what is listed, and a row opens its trajectory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from plotly.callbacks import InputDeviceState, Points

from coevolve_lab import CoEvolve, trajectory_browser
from coevolve_lab.config import Config
from coevolve_lab.records import Signal, Step, Trajectory
from coevolve_lab.store import RunReader, RunWriter
from coevolve_lab.widgets.trajectories import BINS, TrajectoryBrowser

LAST = len(BINS) - 1
EVIL = "<img src=x onerror=alert(1)>"


def browser(run: object, **options: int) -> TrajectoryBrowser:
    made = trajectory_browser(run, **options)
    assert isinstance(made, TrajectoryBrowser), made.error
    return made


def scored(folder: Path, scores: Sequence[float]) -> RunReader:
    """A run with one trajectory for each score."""
    step = Step(0, EVIL, EVIL, ("look",), False, (1, 2), (-0.1, -0.2))
    rows = [
        Trajectory(f"t{i:03}{EVIL}", "task", "g", 0, 0, 1, score, "completed", (step,))
        for i, score in enumerate(scores)
    ]
    with RunWriter.create(folder, Config()) as writer:
        writer.append([*rows, Signal("s1", "rare", rows[0].id, "task", "g", 0, 1, 0.0)])
        writer.append([Signal("s2", "boundary", rows[0].id, "task", "g", 0, 1, 0.0)])
        writer.commit(0)
    return RunReader(folder)


@pytest.fixture(scope="module")
def tenths(tmp_path_factory: pytest.TempPathFactory) -> RunReader:
    return scored(tmp_path_factory.mktemp("tenths") / "run", [i / 10 for i in range(11)] + [0.0, 1.0, 0.05, 0.999])


def click(view: TrajectoryBrowser, bar: int) -> None:
    """What plotly calls when a bar is clicked; the browser test clicks a real one."""
    view.live.traces["trajectories"]._dispatch_on_click(Points([bar]), InputDeviceState())


def test_zero_and_one_have_bars_of_their_own(tenths: RunReader) -> None:
    view = browser(tenths)
    assert view.counts() == [2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2]
    bar = view.live.traces["trajectories"]
    assert list(bar.x) == list(BINS)
    assert list(bar.y) == view.counts()


def test_a_click_on_a_bar_lists_what_is_in_it(tenths: RunReader) -> None:
    view = browser(tenths)
    assert "of 15" in view.rows.where.value
    click(view, LAST)
    assert view.scores.index == (LAST, LAST)
    assert view.rows.shown["score"].to_list() == [1.0, 1.0]
    assert list(view.live.traces["trajectories"].y) == view.counts(), "the histogram keeps showing all scores"
    shades = list(view.live.traces["trajectories"].marker.opacity)
    assert shades[LAST] == 1.0
    assert len(set(shades[:LAST])) == 1
    assert shades[0] < 1.0
    view.any_score.click()
    assert view.scores.index == (0, LAST)
    assert "of 15" in view.rows.where.value
    assert set(view.live.traces["trajectories"].marker.opacity) == {1.0}


def test_the_slider_does_what_clicks_do(tenths: RunReader) -> None:
    view = browser(tenths)
    view.scores.index = (1, 3)
    assert sorted(view.rows.shown["score"]) == [0.05, 0.1, 0.2, 0.3]
    click(view, 0)
    assert view.scores.index == (0, 0)
    assert view.rows.shown["score"].to_list() == [0.0, 0.0]


def test_several_signals_are_one_row(tenths: RunReader) -> None:
    view = browser(tenths)
    marked = view.rows.shown.filter(view.rows.shown["signals"].is_not_null())
    assert marked["signals"].to_list() == ["boundary, rare"]
    view.rows.filters["signal"].value = "rare"
    assert view.rows.shown["id"].to_list() == marked["id"].to_list()
    assert sum(view.counts()) == 1


@pytest.mark.parametrize(
    ("label", "value", "condition"),
    [
        ("purpose", "evaluate", "purpose = 'evaluate'"),
        ("purpose", "train", "purpose = 'train'"),
        ("round", "2", "round = 2"),
        ("signal", "boundary", "id in (select trajectory_id from signals where kind = 'boundary')"),
        ("origin", "feedback", "task_id in (select id from tasks where origin = 'feedback')"),
        ("tool", "show", "list_contains(tools, 'show')"),
        ("status", "completed", "status = 'completed'"),
    ],
)
def test_filters_hold_for_the_list_and_for_the_histogram(
    finished: CoEvolve, label: str, value: str, condition: str
) -> None:
    view = browser(finished)
    view.rows.filters[label].value = value
    assert not view.error
    expected = finished.sql(f"select count(*) as n from trajectories where {condition}")["n"][0]
    assert expected > 0
    assert f"of {expected:,}" in view.rows.where.value
    assert sum(view.counts()) == expected
    assert list(view.live.traces["trajectories"].y) == view.counts()
    solved = finished.sql(f"select count(*) as n from trajectories where score >= 1 and {condition}")["n"][0]
    click(view, LAST)
    assert f"of {solved:,}" in view.rows.where.value
    view.rows.filters[label].value = "any"
    assert sum(view.counts()) == finished.trajectories().height


def test_a_picked_row_opens_below_with_its_tokens(finished: CoEvolve) -> None:
    view = browser(finished, page_size=5)
    view.rows.filters["purpose"].value = "train"
    for name in view.rows.shown["id"].to_list()[:2]:
        view.rows.pick.value = name
        (opened,) = view.below.children
        assert name in opened.page.value
    opened.tokens.value = True
    assert 'class="token"' in opened.page.value
    assert not view.error


def test_ids_are_text_and_exports_show_the_spread(tenths: RunReader) -> None:
    view = browser(tenths, page_size=5)
    view.rows.pick.value = view.rows.shown["id"][0]
    html = view._repr_mimebundle_()["text/html"]
    for shown in (html, view.rows.table.value, view.below.children[0].page.value):
        assert "<img" not in shown
    assert "0.9-1" in html
    assert "trajectories by score" in view.plain()[0]


def test_a_run_without_trajectories_is_an_empty_list(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run", Config()) as writer:
        writer.commit(0)
    view = browser(tmp_path / "run")
    assert view.counts() == [0] * len(BINS)
    assert "nothing here yet" in view.rows.table.value
    assert not view.error


def test_reading_again_sees_what_was_added(tmp_path: Path) -> None:
    reader = scored(tmp_path / "run", [0.0])
    view = browser(reader)
    assert "weary" not in view.rows.filters["tool"].options
    with RunWriter.open(tmp_path / "run") as writer:
        step = Step(0, "weary()", "ok", ("weary",))
        writer.append([Trajectory("new", "task", "g2", 0, 1, 2, 1.0, "completed", (step,))])
        writer.commit(1)
    view.rows.again.click()
    assert view.counts()[LAST] == 1
    assert list(view.live.traces["trajectories"].y) == view.counts()
    view.rows.filters["tool"].value = "weary"
    assert view.rows.shown["id"].to_list() == ["new"]


def test_no_run_is_an_error_text() -> None:
    assert "does not exist" in trajectory_browser("nowhere").error


@pytest.mark.parametrize("size", [0, -1, "x", None])
def test_a_page_has_a_number_of_rows(finished: CoEvolve, size: object) -> None:
    assert "page_size" in trajectory_browser(finished, page_size=size).error


def test_a_damaged_part_is_named(own_run: CoEvolve) -> None:
    path = sorted((own_run.run_dir / "tables" / "trajectories").glob("*.parquet"))[0]
    path.write_bytes(path.read_bytes()[:1000])
    error = trajectory_browser(own_run.run_dir).error
    assert "StoreError" in error
    assert "KeyError" not in error
