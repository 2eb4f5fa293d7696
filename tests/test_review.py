"""Held drafts: waited for, decided about from anywhere, taken up once, and never lost."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coevolve_lab import CoEvolve, review
from coevolve_lab.errors import ReviewPendingError, StoreError
from coevolve_lab.records import Task, TaskDraft
from coevolve_lab.store import RunReader
from coevolve_lab.store.mailbox import posted_reviews
from tests.loop_world import assert_nothing_twice, new_run, rows, warm_cache

pytestmark = pytest.mark.usefixtures(warm_cache.__name__)
HELD = 12  # evolution.initial_tasks of tests/loop_world.py


@pytest.fixture(scope="module")
def waiting_dir(tmp_path_factory: pytest.TempPathFactory, warm_cache: Path) -> Path:
    folder = tmp_path_factory.mktemp("review") / "waiting"
    with new_run(folder, evolution={"review": "manual"}) as run:
        assert run.seed_tasks() == []
    return folder


@pytest.fixture
def run(waiting_dir: Path, tmp_path: Path) -> Iterator[CoEvolve]:
    """D_0 found, every draft of it held, nothing decided."""
    shutil.copytree(waiting_dir, tmp_path / "run")
    with CoEvolve.open(tmp_path / "run", progress=False) as copy:
        yield copy


def ids(run: CoEvolve) -> list[str]:
    return [str(name) for name in run.held()["draft_id"]]


def accept_all(run: CoEvolve) -> None:
    for name in review.undecided(run.reader):
        run.decide(name, "accept")


def test_every_draft_waits_is_decided_and_is_taken_up_once(run: CoEvolve) -> None:
    waiting = ids(run)
    assert len(waiting) == HELD
    assert run.tasks().is_empty()
    for _ in range(2):  # asked again, nothing has happened meanwhile
        with pytest.raises(ReviewPendingError, match=str(HELD)):
            run.round()
    assert run.reader.committed_round == 0
    run.decide(waiting[0], "reject", "too easy", reviewer="ann")
    assert run.decide(waiting[1], "accept").reviewer
    with pytest.raises(ReviewPendingError, match=str(HELD - 2)):
        run.round()
    assert run.held()["decided"].to_list() == ["reject", "accept", *[None] * (HELD - 2)]
    assert review.undecided(run.reader) == waiting[2:]
    accept_all(run)
    run.round()
    first = run.sql("select draft_id, decision, round, reason, reviewer from reviews where decision = 'reject'")
    assert first.rows() == [(waiting[0], "reject", 1, "too easy", "ann")]
    assert run.sql("select count(*) from reviews").item() == HELD
    assert set(run.tasks()["draft_id"]) == set(waiting[1:])
    later = ids(run)
    assert later
    assert not set(later) & set(waiting)
    accept_all(run)
    run.round()
    assert set(later) <= set(run.tasks()["draft_id"])
    assert_nothing_twice(run)
    with pytest.raises(StoreError, match="does not wait"):
        run.decide(waiting[0], "accept")


def test_a_decision_is_replaced_until_it_is_taken_up(run: CoEvolve) -> None:
    accept_all(run)
    name = ids(run)[0]
    run.decide(name, "reject", "on second thoughts")
    added = run.review()
    assert name not in {task.draft_id for task in added}
    assert len(added) == HELD - 1


def test_an_edit_is_validated_again_and_enters_only_if_it_passes(run: CoEvolve) -> None:
    # whose start knows put()
    writes = run.held()["solution"].list.first().list.first().str.contains(r"^(put|copy|show|erase)\(")
    good, bad, broken = run.held().filter(writes)["draft_id"].to_list()[:3]
    calls = "put(key='ant', text='grey')"
    assert run.check_edit(good, ["store grey"], [[f" {calls} ", ""]]).outcome == "accepted"
    assert run.check_edit(bad, ["show"], [["show(key='nobody')"]]).reason == "failed_call"
    assert run.check_edit(broken, ["x"], [["put(key='ant'"]]).outcome != "accepted"
    hasty = run.config.evolution.model_copy(update={"draft_seconds": 1e-9})
    config = run.config.model_copy(update={"evolution": hasty})
    assert review.check_edit(config, run.reader, good, ["store grey"], [[calls]]).reason == "timeout"
    assert run.sql("select count(*) from drafts where id like '%-edit'").item() == 0
    run.decide(good, "edit", "a colour", [" store grey "], [[calls]])
    run.decide(bad, "edit", "", ["show"], [["show(key='nobody')"]])
    run.decide(broken, "edit", "", ["x"], [["__import__('os').getpid()"]])
    accept_all(run)
    run.round()
    edited = run.sql("select draft_id, turns, solution, explorer from tasks where draft_id like '%-edit'").rows()
    assert edited == [(f"{good}-edit", ["store grey"], [[calls]], "scripted+human")]
    verdicts = dict(run.sql("select draft_id, outcome from verdicts where draft_id like '%-edit'").rows())
    assert verdicts[f"{good}-edit"] == "accepted"
    assert verdicts.keys() == {f"{name}-edit" for name in (good, bad, broken)}
    assert "accepted" not in (verdicts[f"{bad}-edit"], verdicts[f"{broken}-edit"])
    assert not {good, bad, broken} & set(run.tasks()["draft_id"])
    cause = run.sql(f"select e.context_id = d.context_id from drafts e, drafts d where e.id = '{good}-edit' "
                    f"and d.id = '{good}'")  # fmt: skip
    assert cause.item() is True
    assert_nothing_twice(run)


def test_what_is_no_decision_is_refused(run: CoEvolve) -> None:
    name = ids(run)[0]
    for wrong, told in (
        (lambda: run.decide("nobody", "accept"), rf"'nobody' does not wait.*waiting: {name}"),
        (lambda: run.decide(name, "maybe"), "not 'maybe'"),
        (lambda: run.decide(name, "edit"), "an edit needs turns"),
        (lambda: run.decide(name, "accept", turns=["x"], solution=[["show()"]]), "the others take neither"),
        (lambda: run.decide(name, "edit", turns=["x", "y"], solution=[["show()"]]), "2 turns of text and 1 of calls"),
        (lambda: run.decide(name, "edit", turns=[" "], solution=[["show()"]]), "text and at least one call"),
        (lambda: run.decide(name, "edit", turns=["x"], solution=[[" "]]), "text and at least one call"),
        (lambda: run.check_edit("nobody", ["x"], [["show()"]]), "'nobody' does not wait"),
        (lambda: run.check_edit(name, ["x"], []), "1 turns of text and 0 of calls"),
    ):
        with pytest.raises(StoreError, match=told):
            wrong()
    assert posted_reviews(run.run_dir) == {}
    run.decide(name, "reject", "x" * 100_000)
    assert len(posted_reviews(run.run_dir)[name].reason) == review.MOST_CHARACTERS


def test_a_review_that_was_not_committed_is_taken_up_again(run: CoEvolve) -> None:
    name = ids(run)[0]
    run.decide(name, "reject", "no")
    accept_all(run)
    added = [task.id for task in run.review()]
    assert len(added) == HELD - 1
    assert ids(run) == []
    run.reader.table("reviews")  # on the disk, as rows of a round that is never committed
    run.close()  # which takes them away again
    again = CoEvolve.open(run.run_dir, progress=False)
    assert again.held()["decided"].to_list() == ["reject", *["accept"] * (HELD - 1)]
    assert again.tasks().is_empty()
    again.round()
    assert [task for task in again.tasks()["id"] if task in added] == added
    assert_nothing_twice(again)
    again.close()


def test_anybody_decides_beside_the_writer_and_the_run_does_the_same(run: CoEvolve, tmp_path: Path) -> None:
    other = run.fork(0, tmp_path / "other")
    assert other.held()["decided"].to_list() == [None] * HELD
    run.seed_tasks()  # locked by this process
    outside = RunReader(run.run_dir)
    for name in review.undecided(outside):
        review.decide(outside, name, "accept")
    accept_all(other)
    run.round()
    other.round()
    clocks = {"reviews"}  # when it was decided
    assert {k: v for k, v in rows(run).items() if k not in clocks} == {
        k: v for k, v in rows(other).items() if k not in clocks
    }
    other.close()


def test_a_fork_has_its_own_decisions(run: CoEvolve, tmp_path: Path) -> None:
    accept_all(run)
    fork = run.fork(0, tmp_path / "fork")
    assert ids(fork) == ids(run)
    assert review.undecided(fork.reader) == ids(fork)
    with pytest.raises(ReviewPendingError):
        fork.round()
    fork.close()
    run.round()
    accept_all(run)
    later = run.fork(1, tmp_path / "later")
    assert later.sql("select count(*) from reviews").item() == HELD
    assert ids(later) == ids(run)
    later.close()


def test_all_rejected_says_what_to_do_and_can_be_mended(run: CoEvolve) -> None:
    for name in ids(run):
        run.decide(name, "reject", "no")
    with pytest.raises(StoreError, match=r"the task set is empty.*task_review\(run\)"):
        run.round()
    assert run.reader.committed_round == 0
    run.close()  # nothing of that is committed: the decisions can be changed
    for name in ids(run)[:4]:
        run.decide(name, "accept")
    run.round()
    assert run.tasks().height >= 4


def test_a_damaged_decision_stops_the_run_and_is_named(run: CoEvolve) -> None:
    accept_all(run)
    path = sorted((run.run_dir / "reviews").glob("*.json"))[0]
    path.write_text("{")
    with pytest.raises(StoreError, match=path.name):
        run.round()
    path.unlink()
    with pytest.raises(ReviewPendingError, match="1"):
        run.round()
    accept_all(run)
    run.round()
    assert run.reader.committed_round == 1


def test_without_review_nothing_is_held(tmp_path: Path) -> None:
    with new_run(tmp_path / "run") as run:
        assert len(run.seed_tasks()) == HELD
        assert ids(run) == []
        assert run.review() == []


def test_decisions_taken_up_by_hand_do_not_let_the_others_through(run: CoEvolve) -> None:
    for name in ids(run)[:3]:
        run.decide(name, "accept")
    assert len(run.review()) == 3
    with pytest.raises(ReviewPendingError, match=str(HELD - 3)):
        run.round()
    accept_all(run)
    run.round()
    assert run.sql("select count(*) from reviews").item() == HELD
    assert_nothing_twice(run)


def test_a_fork_without_review_takes_up_decisions_and_waits_for_none(run: CoEvolve, tmp_path: Path) -> None:
    with run.fork(0, tmp_path / "fork", evolution={"review": "auto"}) as fork:
        for name in ids(fork)[:6]:
            fork.decide(name, "accept")
        fork.round()
        assert fork.sql("select count(*) from reviews").item() == 6
        assert len(ids(fork)) == HELD - 6


def test_an_edit_is_checked_against_what_is_accepted_beside_it(run: CoEvolve) -> None:
    one, other = ids(run)[:2]
    twin = run.held().row(0, named=True)
    run.decide(one, "accept")
    started = run.held().filter(run.held()["draft_id"] == other)["start"][0]
    verdict = run.check_edit(other, twin["turns"], twin["solution"])
    assert (verdict.reason == "duplicate") == (started == twin["start"])
    assert run.check_edit(one, twin["turns"], twin["solution"]).reason != "duplicate"


def test_tasks_whose_record_failed_are_not_in_memory_either(run: CoEvolve) -> None:
    accept_all(run)
    record = run._record

    def interrupted(records: Any) -> None:
        if any(isinstance(one, Task) for one in records):
            raise KeyboardInterrupt
        record(records)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "_record", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run.round()
    run.round()
    assert len(run.task_set) == run.tasks().height
    assert run.tasks().height >= HELD


def test_a_decision_that_is_in_force_cannot_be_changed(run: CoEvolve) -> None:
    name = ids(run)[0]
    accept_all(run)
    run.review()
    with pytest.raises(StoreError, match="does not wait"):
        review.decide(RunReader(run.run_dir), name, "reject", "too late")


def test_a_round_waits_for_drafts_of_earlier_rounds_only(run: CoEvolve) -> None:
    accept_all(run)
    run.review()
    batch = run.rollout()
    run.train(batch)
    verdicts = run.validate(run.abstract(run.explore(run.reflect(run.find_signals(batch)))))
    again = run.validate([draft for draft in run.reader.records(TaskDraft, "round = 1")])
    assert {v.draft_id for v in verdicts if v.outcome == "held"} == {v.draft_id for v in again if v.outcome == "held"}
    assert len(ids(run)) == len(set(ids(run)))
    run.round()
    assert run.reader.committed_round == 1
    run.rollout(run.task_set[:1])
    with pytest.raises(ReviewPendingError, match=r"run\.close\(\) drops"):
        run.round()


def test_a_decision_too_long_to_be_read_is_not_taken(run: CoEvolve) -> None:
    name = ids(run)[0]
    with pytest.raises(StoreError, match="are taken"):
        run.decide(name, "edit", turns=["x" * 1_100_000], solution=[["show(key='a')"]])
    assert name in ids(run)
