"""The dashboard, driven as a browser would: clicks in, figure data and text out."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import nbconvert
import nbformat
import numpy as np
import pytest

from coevolve_lab import CoEvolve, runs
from coevolve_lab.background import Background, RunStatus
from coevolve_lab.records import TaskDraft
from coevolve_lab.store import RunReader
from coevolve_lab.widgets.figure import MOST_POINTS
from coevolve_lab.widgets.forking import Fork
from coevolve_lab.widgets.live import Dashboard, dashboard
from coevolve_lab.widgets.progress_queries import look
from coevolve_lab.widgets.view import Failed

SLOW = str(Path(__file__).resolve().parents[1] / "background" / "slow_world.py")


@pytest.fixture
def board(own_run: CoEvolve) -> Iterator[Dashboard]:
    made = dashboard(own_run, every=0)
    assert isinstance(made, Dashboard), made.error
    yield made
    made.close()


def points(board: Dashboard, name: str) -> list[float]:
    return [round(float(value), 4) for value in board.live.traces[name].y]


def test_it_shows_what_the_run_recorded(board: Dashboard, own_run: CoEvolve) -> None:
    updates = own_run.reader.table("updates").sort("step")
    assert points(board, "training reward (sampled)") == [round(r, 4) for r in updates["reward"]]
    kinds = own_run.sql("select kind, count(*) as n from signals group by kind")
    for kind, n in kinds.rows():
        assert sum(points(board, f"kind {kind}")) == n
    assert points(board, "origin seed")[-1] == own_run.config.evolution.initial_tasks
    lengths = own_run.sql("select n_calls, count(*) as n from tasks where origin = 'seed' group by 1 order by 1")
    assert list(board.live.traces["original"].x) == lengths["n_calls"].to_list()
    drafted = own_run.sql("select count(*) as n from drafts")["n"][0]
    assert max(board.live.traces["outcome drafted"].x) == drafted
    assert "3 of 3 rounds committed" in board.status_line.value
    assert not board.error


def test_signals_can_be_seen_as_shares_of_their_round(board: Dashboard, own_run: CoEvolve) -> None:
    layout, kinds = board.live.widget.layout, own_run.sql("select distinct kind from signals")["kind"].to_list()
    counts, traces = {kind: points(board, f"kind {kind}") for kind in kinds}, len(board.live.widget.data)
    board.measure.value = "shares"
    assert not board.error
    for round in range(len(counts[kinds[0]])):
        assert sum(points(board, f"kind {kind}")[round] for kind in kinds) == pytest.approx(1, abs=1e-3)
    assert layout.yaxis3.range == (0, 1)
    titles = [title.text for title in layout.annotations]
    assert "Share of each round's signals" in titles
    own_run.find_signals(own_run.rollout())
    board.refresh()  # what is new is a share, too
    assert max(points(board, f"kind {kinds[0]}")) <= 1
    assert all("%" in text for text in board.live.traces[f"kind {kinds[0]}"].hovertext)
    board.measure.value = "counts"
    assert {kind: points(board, f"kind {kind}")[: len(counts[kind])] for kind in kinds} == counts
    assert layout.yaxis3.autorange
    assert "Signals by kind" in [title.text for title in layout.annotations]
    assert len(board.live.widget.data) == traces


def test_fork_here_opens_a_form_and_puts_it_away(board: Dashboard, own_run: CoEvolve) -> None:
    board.fork.click()
    (form,) = board.forking.children
    assert isinstance(form, Fork)
    form.changes.value = "signals: {rare: null}"
    form.make.click()
    assert not form.error
    with CoEvolve.open(form.made_dir, progress=False) as other:
        assert other.config.signals.rare is None
        assert other.reader.committed_round == own_run.reader.committed_round
    board.fork.click()
    assert not board.forking.children


def test_a_click_on_step_trains_and_the_figure_follows(board: Dashboard, own_run: CoEvolve) -> None:
    before, traces = points(board, "KL"), len(board.live.widget.data)
    board.buttons["step"].click()
    assert not board.error
    assert own_run.step == len(before) + 1
    assert len(points(board, "KL")) == len(before) + 1
    board.refresh()
    assert len(board.live.widget.data) == traces
    assert not board.buttons["step"].disabled


def test_a_click_on_round_commits_one(board: Dashboard, own_run: CoEvolve) -> None:
    board.buttons["round"].click()
    assert own_run.reader.committed_round == 4
    assert "4 of 3 rounds committed" in board.status_line.value


def test_background_buttons_are_off_while_nothing_runs_in_the_background(board: Dashboard) -> None:
    off = {name for name, button in board.buttons.items() if button.disabled}
    assert off == {"start", "pause", "resume", "stop"}


def test_a_background_that_ended_before_the_last_round_leaves_a_way_on(
    own_run: CoEvolve, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = RunStatus("finished", 1, 1, committed=1)  # as after start(rounds=1)
    monkeypatch.setattr(Background, "status", lambda self: ended)
    board = dashboard(own_run.fork(1), every=0)
    assert "1 of 3 rounds committed" in board.status_line.value
    assert ">idle<" in board.status_line.value
    assert "idle" in runs(board._reader.run_dir.parent).table.value
    assert not board.buttons["start"].disabled
    assert board.buttons["resume"].disabled  # it would go on to round 1
    ended = RunStatus("idle", 1, 3, committed=1, message="stopped after round 1; resume() goes on")
    board.refresh()
    assert not board.buttons["resume"].disabled
    board.close()


def test_onlookers_cannot_train(finished_dir: Path) -> None:
    board = dashboard(finished_dir, every=0)
    assert board.buttons["step"].disabled
    assert board.buttons["round"].disabled
    board.close()


def test_a_stage_that_fails_is_shown_and_the_view_lives_on(board: Dashboard, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise RuntimeError("the <b>engine</b> fell off")

    monkeypatch.setattr(board._run, "round", broken)
    board.buttons["round"].click()
    assert "the &lt;b&gt;engine&lt;/b&gt; fell off" in board.error
    assert not board.buttons["round"].disabled
    board.refresh()
    assert not board.error


def test_it_follows_the_run_by_itself_and_stops_when_closed(own_run: CoEvolve) -> None:
    board = dashboard(own_run, every=0.05)
    assert isinstance(board, Dashboard)
    before = len(points(board, "KL"))
    own_run.train(own_run.rollout())  # as a cell would, in the main thread
    deadline = time.monotonic() + 20
    while len(points(board, "KL")) == before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(points(board, "KL")) == before + 1
    board.close()
    deadline = time.monotonic() + 20
    while any(thread.name == "dashboard" for thread in threading.enumerate()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(thread.name == "dashboard" for thread in threading.enumerate())


def test_a_newer_dashboard_of_the_run_ends_the_older_ones_looking(own_run: CoEvolve) -> None:
    older = dashboard(own_run, every=0.05)
    other = dashboard(own_run.fork(1), every=0.05)
    newer = dashboard(own_run.run_dir, every=0.05)
    try:
        threads = [thread for thread in threading.enumerate() if thread.name == "dashboard"]
        deadline = time.monotonic() + 20
        while sum(thread.is_alive() for thread in threads) > 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert sum(thread.is_alive() for thread in threads) == 2
        older.refresh()  # as a button would
        said = "a newer view follows this"
        assert [said in view.status_line.value for view in (older, other, newer)] == [True, False, False]
        assert "rounds committed" in older.status_line.value
    finally:
        for view in (older, other, newer):
            view.close()


def test_without_widgets_there_is_a_table(board: Dashboard) -> None:
    bundle = board._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert "<table>" in bundle["text/html"]
    assert "reward" in bundle["text/plain"]


def test_an_exported_notebook_shows_the_table(board: Dashboard) -> None:
    output = nbformat.v4.new_output("display_data", data=board._repr_mimebundle_())
    cell = nbformat.v4.new_code_cell("dashboard(run)", outputs=[output])
    html, _ = nbconvert.HTMLExporter().from_notebook_node(nbformat.v4.new_notebook(cells=[cell]))
    assert "rounds committed" in html


def test_no_run_gives_its_error_as_text(tmp_path: Path) -> None:
    made = dashboard(tmp_path / "nowhere")
    assert isinstance(made, Failed)
    bundle = made._repr_mimebundle_()
    assert "does not exist" in bundle["text/plain"]
    assert "does not exist" in bundle["text/html"]


def test_what_a_saved_notebook_holds_is_small(board: Dashboard) -> None:
    state = board.live.widget.get_state()
    state.pop("_esm", None)  # plotly's own script, saved once a notebook at most
    data = [trace for trace in board.live.widget.to_dict()["data"]]
    assert all(np.asarray(board.live.traces[name].y).size <= MOST_POINTS for name in board.live.traces)
    assert board.live.traces["KL"].y.dtype == np.float32
    assert len(json.dumps(data, default=str)) < 60_000


def test_long_runs_are_thinned(board: Dashboard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coevolve_lab.widgets.progress_queries.MOST_POINTS", 3)
    seen = look(board._reader)
    assert seen.updates.height <= 4
    mean = board._reader.sql("select avg(reward) as r from updates")["r"][0]
    assert seen.updates["reward"].mean() == pytest.approx(mean, abs=0.1)


def test_a_draft_that_is_validated_again_counts_once(own_run: CoEvolve) -> None:
    own_run.validate(own_run.reader.records(TaskDraft)[:3])
    seen = look(own_run.reader)
    assert own_run.verdicts().height > seen.drafts["n"].sum()
    assert seen.verdicts["n"].sum() == own_run.verdicts()["draft_id"].n_unique()


def test_only_tables_that_changed_are_read_again(board: Dashboard, own_run: CoEvolve) -> None:
    first = look(own_run.reader)
    assert look(own_run.reader, first) == first
    own_run.train(own_run.rollout())
    second = look(own_run.reader, first)
    assert second.updates.height == first.updates.height + 1
    assert second.tasks is first.tasks
    assert second.steps == first.steps + 1


@pytest.mark.slow
def test_start_imports_what_the_dashboard_was_given_and_a_running_run_can_be_forked(own_run: CoEvolve) -> None:
    run = own_run.fork(2, rounds=6)
    board = dashboard(run, every=0, imports=[SLOW])
    assert isinstance(board, Dashboard), board.error
    try:
        board.buttons["start"].click()
        assert not board.error
        assert not board.buttons["pause"].disabled
        assert run.status().state == "running"
        board.fork.click()
        (form,) = board.forking.children
        form.make.click()
        assert not form.error
        assert RunReader(form.made_dir).committed_round == form.round.value >= 2
    finally:
        run.stop(discard=True)
        board.close()


@pytest.mark.slow
def test_buttons_steer_a_run_in_the_background(own_run: CoEvolve) -> None:
    own_run.start(6, imports=[SLOW])
    board = dashboard(own_run, every=0)
    assert isinstance(board, Dashboard), board.error
    try:
        assert board.buttons["step"].disabled
        assert not board.buttons["pause"].disabled
        board.buttons["pause"].click()
        own_run.background.wait("paused", timeout=60)
        board.refresh()
        assert ">paused<" in board.status_line.value
        assert not board.buttons["resume"].disabled
        board.buttons["resume"].click()
        board.buttons["stop"].click()
        own_run.background.wait("idle", "finished", timeout=60)
        board.refresh()
        assert not board.error
        assert board.buttons["pause"].disabled
        assert not board.buttons["step"].disabled
        assert not board.buttons["resume"].disabled
        assert len(points(board, "KL")) == own_run.sql("select count(*) as n from updates")["n"][0] > 6
    finally:
        own_run.stop(discard=True)
        board.close()
