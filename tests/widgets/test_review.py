"""Held drafts decided about with the widget's own buttons, and a run that goes on with what was decided."""

from __future__ import annotations

import dataclasses
import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from coevolve_lab import CoEvolve, task_review
from coevolve_lab.errors import ReviewPendingError, StoreError
from coevolve_lab.records import TaskDraft, Verdict
from coevolve_lab.store import RunReader, RunWriter
from coevolve_lab.store.mailbox import posted_reviews
from coevolve_lab.widgets.review import TaskReview
from tests.loop_world import new_run, warm_cache

pytestmark = pytest.mark.usefixtures(warm_cache.__name__)
HELD = 12  # evolution.initial_tasks of tests/loop_world.py
HOSTILE = "<script>alert('x')</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def waiting_dir(tmp_path_factory: pytest.TempPathFactory, warm_cache: Path) -> Path:
    """D_0 found, every draft of it held, nothing decided."""
    folder = tmp_path_factory.mktemp("review") / "waiting"
    with new_run(folder, evolution={"review": "manual"}) as run:
        run.seed_tasks()
    return folder


@pytest.fixture
def run(waiting_dir: Path, tmp_path: Path) -> Iterator[CoEvolve]:
    shutil.copytree(waiting_dir, tmp_path / "run")
    with CoEvolve.open(tmp_path / "run", progress=False) as copy:
        yield copy


def review_of(run: object, page_size: int = 10) -> TaskReview:
    view = task_review(run, page_size)
    assert isinstance(view, TaskReview), view.error
    return view


def opened(view: TaskReview) -> str:
    return str(view.drafts.pick.value)


def test_drafts_are_decided_one_after_the_other_and_the_run_goes_on(run: CoEvolve) -> None:
    view = review_of(run)
    assert f"{HELD} drafts wait for a decision; 0 decided" in view.summary.value
    assert "manual" in view.summary.value
    assert "run.round() goes on once all are decided" in view.summary.value
    assert f"1-10 of {HELD}" in view.drafts.where.value
    with pytest.raises(ReviewPendingError):
        run.round()
    first = opened(view)
    assert first in view.page.value
    view.reason.value = "a good one"
    view.accept.click()
    second = opened(view)
    assert second not in ("", first)
    assert f"{first} accepted" in view.said.value
    assert view.reason.value == ""
    view.reject.click()
    assert opened(view) == second  # the reason is asked for
    assert "why" in view.said.value
    assert set(posted_reviews(run.run_dir)) == {first}
    view.reason.value = "teaches nothing"
    view.reject.click()
    assert f"{HELD - 2} drafts wait for a decision; 2 decided" in view.summary.value
    view.sure.value = True
    assert view.accept_all.description == f"accept these {HELD - 2}"
    view.accept_all.click()
    assert "0 drafts wait" in view.summary.value
    assert f"{HELD} decided" in view.summary.value
    assert "goes on now" in view.summary.value
    assert opened(view) == ""
    assert view.page.value.count("<h4>") == 0
    assert not view.error
    run.round()
    assert run.sql("select draft_id, reason from reviews where decision = 'reject'").rows() == [
        (second, "teaches nothing")
    ]
    drafts = run.sql("select draft_id from tasks where origin = 'seed'")["draft_id"].to_list()
    assert first in drafts
    assert len(drafts) == HELD - 1
    view.refresh()
    assert first not in view.drafts.table.value


def test_nothing_is_decided_by_a_single_click_on_all(run: CoEvolve) -> None:
    view = review_of(run, page_size=4)
    assert view.confirm.layout.display == "none"
    view.reject_all.click()
    assert posted_reviews(run.run_dir) == {}
    view.sure.value = True
    view.reject_all.click()
    assert "why" in view.said.value
    assert posted_reviews(run.run_dir) == {}
    view.drafts.later.click()  # other rows than those that it was said of
    assert not view.sure.value
    view.sure.value = True
    shown = view.drafts.shown["id"].to_list()
    view.why_all.value = "all alike"
    view.reject_all.click()
    assert {name: r.reason for name, r in posted_reviews(run.run_dir).items()} == dict.fromkeys(shown, "all alike")
    assert f"of {HELD - 4}" in view.drafts.where.value


def test_a_decision_is_shown_and_can_be_changed_until_the_run_takes_it_up(run: CoEvolve) -> None:
    view = review_of(run)
    first = opened(view)
    view.reason.value = "too easy"
    view.reject.click()
    view.which.value = "decided"
    assert view.drafts.shown["id"].to_list() == [first]
    assert view.drafts.shown["decision"].to_list() == ["rejected"]
    view.drafts.pick.value = first
    assert "rejected" in view.page.value
    assert view.reason.value == "too easy"
    view.which.value = "all"
    assert f"of {HELD}" in view.drafts.where.value
    view.sure.value = True
    view.accept_all.click()  # leaves alone what was decided
    assert posted_reviews(run.run_dir)[first].decision == "reject"
    view.drafts.pick.value = first
    view.accept.click()
    assert posted_reviews(run.run_dir)[first].decision == "accept"
    view.sure.value = True
    view.drafts.later.click()
    view.sure.value = True
    view.accept_all.click()
    view.drafts.earlier.click()
    view.drafts.pick.value = first
    run.round()
    view.reject.click()
    assert "why" not in view.said.value
    assert "does not wait for a decision" in view.error


def test_an_edit_is_saved_only_as_it_was_when_it_passed(run: CoEvolve) -> None:
    view = review_of(run)
    puts = run.held()["solution"].list.first().list.first().str.starts_with("put(")
    chosen = run.held().filter(puts)["draft_id"][0]
    view.open_draft(chosen)
    view.edit.value = True
    (said,), (calls,) = view.editor.turns, view.editor.calls
    assert calls.value.startswith("put(")
    assert view.editor.save.disabled
    calls.value = "show(key='nobody')"
    view.editor.check.click()
    assert "does not pass" in view.editor.verdict.value
    assert "failed_call" in view.editor.verdict.value
    assert view.editor.save.disabled
    view.editor.save.click()
    assert posted_reviews(run.run_dir) == {}
    calls.value = "  "
    view.editor.check.click()
    assert "at least one call for every turn" in view.editor.verdict.value
    assert view.editor.save.disabled
    said.value, calls.value = "please do it", "put(key='ant', text='grey')\n\n  put(key='bee', text='grey')  \n"
    view.editor.check.click()
    assert "passes" in view.editor.verdict.value
    assert not view.editor.save.disabled
    passed = said.value
    said.value = "something else"
    assert view.editor.save.disabled
    assert "check it again" in view.editor.verdict.value
    view.editor.save.click()
    assert posted_reviews(run.run_dir) == {}
    said.value = passed
    view.editor.check.click()
    view.editor.save.click()
    left = posted_reviews(run.run_dir)[chosen]
    assert (left.decision, left.turns) == ("edit", ("please do it",))
    assert left.solution == (("put(key='ant', text='grey')", "put(key='bee', text='grey')"),)
    assert opened(view) != chosen
    view.open_draft(chosen)
    assert "please do it" in view.page.value
    view.edit.value = True
    assert view.editor.turns[0].value == "please do it"  # one goes on from the edit
    for name in set(run.held()["draft_id"]) - {chosen}:
        run.decide(name, "accept")
    run.round()
    turns = run.sql(f"select turns from tasks where draft_id = '{chosen}-edit'")["turns"].to_list()
    assert turns == [["please do it"]]
    assert not view.error


def test_calls_of_several_lines_and_turns_that_are_dropped(waiting_dir: Path) -> None:
    editor = review_of(waiting_dir).editor
    editor.show_draft(["one", "two"], [["a()\nb()", "c()"], ["d()"]])
    assert editor.parts() == (("one", "two"), (("a()\nb()", "c()"), ("d()",)))
    editor.turns[0].value = editor.calls[0].value = ""
    assert editor.parts() == (("two",), (("d()",),))
    editor.show_draft(["one"], [["a()\n\nb()"]])
    assert editor.turns == []
    assert "run.decide" in editor.children[0].value


def test_what_a_model_wrote_is_text(run: CoEvolve, tmp_path: Path) -> None:
    draft, verdict = run.reader.records(TaskDraft)[0], run.reader.records(Verdict)[0]
    hostile = dataclasses.replace(
        draft, id="draft-r1-0", turns=(HOSTILE,), solution=((HOSTILE,),), start={HOSTILE: HOSTILE}, explorer=HOSTILE,
        context_id="x' or '1'='1", rollout_id=HOSTILE,
    )  # fmt: skip
    held = dataclasses.replace(
        verdict, id="verdict-r1-0", draft_id=hostile.id, reason="risk", detail=HOSTILE, task=None
    )
    with RunWriter.open(run.run_dir) as writer:
        writer.append([dataclasses.replace(r, round=1) for r in (hostile, held)])
        writer.commit(1)
    view = review_of(run.run_dir)
    view.drafts.filters["reason"].value = "risk"
    assert view.drafts.shown["id"].to_list() == [hostile.id]
    view.drafts.pick.value = hostile.id
    assert "coevolve-risk" in view.page.value
    assert "&lt;script&gt;" in view.page.value
    view.edit.value = True
    view.editor.check.click()
    assert "passes" not in view.editor.verdict.value
    shown = [
        view.page.value, view.drafts.table.value, view.summary.value, view.editor.verdict.value, view.plain()[1],
    ]  # fmt: skip
    view.reason.value = HOSTILE
    view.reject.click()
    view.open_draft(hostile.id)
    shown += [view.page.value, view.said.value]
    for html in shown:
        assert "<script" not in html
        assert "<img" not in html
    assert not view.error


def test_where_a_draft_came_from(run: CoEvolve) -> None:
    view = review_of(run)
    assert "unguided exploration (seed)" in view.page.value
    assert "the exploration that it was abstracted from" in view.page.value
    assert "start state" in view.page.value
    view.sure.value = True
    view.accept_all.click()
    view.sure.value = True
    view.accept_all.click()
    run.round()
    view.refresh()
    guided = run.sql(
        "select v.draft_id as id, c.signal_id as signal from verdicts v join drafts d on d.id = v.draft_id join "
        "contexts c on c.id = d.context_id where v.outcome = 'held' and v.round = 1 and c.signal_id is not null"
    )
    view.open_draft(guided["id"][0])
    assert guided["signal"][0] in view.page.value
    assert "signal on trajectory" in view.page.value
    assert not view.error


def test_beside_a_run_from_a_folder_a_reader_and_without_widgets(run: CoEvolve) -> None:
    for given in (run, RunReader(run.run_dir), run.run_dir, str(run.run_dir)):
        text, html = review_of(given).plain()
        assert f"{HELD} drafts wait" in text
        assert f"10 of {HELD} drafts (waiting)" in text
        assert run.held()["draft_id"][0] in html
    run.seed_tasks()  # this process writes to it, another one only looks
    view = review_of(run.run_dir)
    view.accept.click()
    assert len(posted_reviews(run.run_dir)) == 1
    assert not view.error


def test_a_run_that_holds_nothing_says_how_to_switch_it_on(finished: CoEvolve) -> None:
    view = review_of(finished)
    assert "No draft waits" in view.summary.value
    assert "evolution.review" in view.summary.value
    assert "fork" in view.plain()[0]
    assert view.buttons.layout.display == "none"
    assert not view.error


def test_a_damaged_decision_is_named(run: CoEvolve) -> None:
    view = review_of(run)
    view.accept.click()
    (path,) = (run.run_dir / "reviews").glob("*.json")
    path.write_text(json.dumps({"id": 1}))
    view.refresh()
    assert path.name in view.error
    assert path.name in task_review(run).error
    path.unlink()
    view.refresh()
    assert not view.error
    assert f"{HELD} drafts wait" in view.summary.value


def test_no_run_is_an_error_that_is_shown(tmp_path: Path) -> None:
    assert StoreError.__name__ in task_review(tmp_path / "nowhere").error


@pytest.mark.slow
def test_a_background_run_goes_on_by_itself_after_the_last_decision(run: CoEvolve) -> None:
    def until(condition: object, seconds: float = 40.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():  # type: ignore[operator]
            assert time.monotonic() < deadline, run.logs()
            time.sleep(0.05)

    try:
        run.start(1, imports=["tests.loop_world"])
        until(lambda: run.status().stage == "review")
        view = review_of(run.run_dir, page_size=20)
        assert "goes on by itself once all are decided" in view.summary.value
        view.reason.value = "not this one"
        view.reject.click()
        view.sure.value = True
        view.accept_all.click()
        assert run.background.wait("finished").committed == 1
        run = CoEvolve.open(run.run_dir, progress=False)
        assert run.sql("select decision, count(*) from reviews group by all order by 1").rows() == [
            ("accept", HELD - 1), ("reject", 1),
        ]  # fmt: skip
        assert "task_review(run)" in run.logs(200)
    finally:
        run.stop(discard=True)
