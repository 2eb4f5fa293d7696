from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from coevolve_lab.config import EvolutionConfig
from coevolve_lab.environments.base import Environment
from coevolve_lab.errors import EnvironmentFailure
from coevolve_lab.evolution import REASONS, Guard, Occasion, TaskSet, validate_drafts
from coevolve_lab.records import Judgement, Task, TaskDraft, Verdict
from tests.evolution.test_contexts import PlainWorld
from tests.evolution.toy_world import ToySession, ToyWorld

Drafts = Callable[..., TaskDraft]
ONE = Occasion(1)
ERASE = "erase(key='ant')"


def guard(*evaluation: Task, min_calls: int = 1) -> Guard:
    return Guard.from_config(EvolutionConfig(min_calls=min_calls), evaluation)


def validate(*drafts: TaskDraft, world: Environment | None = None, **options: Any) -> list[Verdict]:
    verdicts = validate_drafts(drafts, world or ToyWorld(), guard(), [], ONE, **options)
    assert [v.draft_id for v in verdicts] == [d.id for d in drafts]
    assert all(v.reason in REASONS and v.detail for v in verdicts)
    assert all((v.task is not None) == (v.outcome == "accepted") for v in verdicts)
    return verdicts


def said(verdict: Verdict) -> tuple[str, str]:
    return verdict.outcome, verdict.reason


class ScoredWorld(ToyWorld):
    """The toy world with a verifier of a test's choice: ``judge`` says how a session is scored.

    ``played`` counts the sessions that were scored; ``actions`` holds what was played in each session, in order.
    """

    def __init__(self, judge: Callable[[ScoredWorld, ToySession, list[str]], float]) -> None:
        super().__init__()
        self.judge, self.played, self.actions, self.closed = judge, 0, [], 0  # type: ignore[var-annotated]

    def open(self, task: Task) -> ToySession:
        session, actions = super().open(task), []  # type: ignore[var-annotated]
        step = session.step
        self.actions.append(actions)

        def recorded(action: str) -> tuple[str, bool]:
            actions.append(action)
            return step(action)

        def score() -> float:
            self.played += 1
            return self.judge(self, session, actions)

        def close() -> None:
            self.closed += 1

        session.step, session.score, session.close = recorded, score, close  # type: ignore[method-assign]
        return session


def test_a_good_draft_becomes_a_task(draft: Drafts) -> None:
    (verdict,) = validate(draft(ERASE, "total()", turns=("erase ant and sum up",), explorer="scripted"))
    assert said(verdict) == ("accepted", "solved")
    assert (verdict.id, verdict.score, verdict.round) == ("verdict-r1-0", 1.0, 1)
    assert verdict.task == Task(
        id="task-r1-0",
        environment="toy",
        turns=("erase ant and sum up",),
        start=draft().start,
        solution=((ERASE, "total()"),),
        origin="feedback",
        draft_id="draft-r1-0",
        round=1,
        explorer="scripted",
    )


def test_the_solution_is_played_twice_and_three_controls_once_each_in_fresh_sessions(draft: Drafts) -> None:
    world = ScoredWorld(lambda world, session, actions: ToySession.score(session))
    (verdict,) = validate(draft(ERASE, "show(key='bee')", turns=("erase ant, show bee",)), world=world)
    assert said(verdict) == ("accepted", "solved")
    gold, again, nothing, echo, walk = world.actions
    assert gold == again == [ERASE, "show(key='bee')", "Done."]
    assert nothing == ["Done."]
    assert echo == ["erase ant, show bee"]
    assert len(walk) == 3
    assert walk[-1] == "Done."
    assert world.played == 5
    assert world.closed == len(world.actions) == 5


def test_several_user_turns_are_played_in_order(draft: Drafts) -> None:
    world = ScoredWorld(lambda world, session, actions: ToySession.score(session))
    two = draft(turns=("erase ant", "show bee"), solution=((ERASE,), ("show(key='bee')",)))
    assert said(validate(two, world=world)[0]) == ("accepted", "solved")
    assert world.actions[0] == [ERASE, "Done.", "show(key='bee')", "Done."]
    assert world.actions[2] == ["Done.", "Done."]
    assert world.actions[3] == ["erase ant", "show bee"]
    assert [a == "Done." for a in world.actions[4]] == [False, True, False, True]


@pytest.mark.parametrize(
    ("judge", "outcome", "reason"),
    [
        (lambda world, session, actions: 0.5, "retained", "partial"),
        (lambda world, session, actions: 0.0, "discarded", "unsolved"),
        (lambda world, session, actions: float(world.played == 1), "discarded", "unstable"),
        (lambda world, session, actions: 1.0, "discarded", "accepts_nothing"),
        (lambda world, session, actions: float(actions != ["Done."]), "discarded", "accepts_echo"),
        (lambda world, session, actions: float(len(actions) > 1), "discarded", "accepts_walk"),
        (lambda world, session, actions: 1 / 0, "discarded", "environment_error"),
    ],
)
def test_what_executing_shows(draft: Drafts, judge: Any, outcome: str, reason: str) -> None:
    assert said(validate(draft(ERASE), world=ScoredWorld(judge))[0]) == (outcome, reason)


def test_a_walk_that_is_the_solution_itself_is_no_control(draft: Drafts) -> None:
    only_total = {"pool": "train", "classes": ["counters"], "values": {}, "counters": {"cat": 3}}
    drafts = [
        draft("total()", turns=(f"sum up {i}",), start=only_total | {"counters": {"cat": i}}, id=f"d{i}")
        for i in range(1, 40)
    ]
    assert {v.reason for v in validate(*drafts)} == {"solved"}


def test_a_failing_call_is_never_a_solution(draft: Drafts) -> None:
    (verdict,) = validate(draft("erase(key='fox')", ERASE))
    assert said(verdict) == ("retained", "failed_call")
    assert "erase(key='fox')" in verdict.detail
    assert said(validate(draft("delete_everything()"))[0])[1] == "failed_call"


def test_calls_that_are_never_made_are_no_solution(draft: Drafts) -> None:
    """Whatever the end state: a word ended the episode before them."""
    (verdict,) = validate(draft(ERASE, "That was it.", "add(counter='cat', amount=0)"))
    assert (verdict.outcome, verdict.reason, verdict.score) == ("discarded", "failed_call", 1.0)
    assert "before all calls" in verdict.detail


@pytest.mark.parametrize(
    "fields",
    [
        {"turns": ()},
        {"turns": ("a", "b")},
        {"turns": ("  ",)},
        {"solution": ((),)},
        {"solution": ((" ",),)},
        {"turns": ("x" * 200_000,)},
    ],
)
def test_malformed(draft: Drafts, fields: dict[str, Any]) -> None:
    given: dict[str, Any] = {"turns": ("erase ant",), "solution": ((ERASE,),)} | fields
    assert said(validate(draft(**given))[0]) == ("discarded", "malformed")
    assert said(validate(draft(**given), execute=False)[0]) == ("discarded", "malformed")


def test_the_guard_speaks_before_anything_is_executed(draft: Drafts, task: Callable[..., Task]) -> None:
    world = ScoredWorld(lambda world, session, actions: ToySession.score(session))
    leaking = draft("total()", turns=("erase ant",))
    verdicts = validate_drafts([leaking, draft(ERASE)], world, guard(task(query="erase ant")), [task(ERASE)], ONE)
    assert [said(v) for v in verdicts] == [("discarded", "leak"), ("discarded", "duplicate")]
    assert verdicts[0].similarity == pytest.approx(1)
    assert world.actions == []


def test_without_execution_everything_readable_and_new_is_accepted(draft: Drafts) -> None:
    wrong = draft("no_such_call()", turns=("nonsense",))
    verdicts = validate(wrong, wrong, execute=False)
    assert [said(v) for v in verdicts] == [("accepted", "unvalidated"), ("discarded", "duplicate")]


def test_one_bad_draft_sinks_no_other(draft: Drafts) -> None:
    class Breaking(ToyWorld):
        def open(self, task: Task) -> ToySession:
            if "bad" in task.turns[0]:
                raise EnvironmentFailure("the server is gone")
            return super().open(task)

    hostile = draft("f(" + "[" * 5000, turns=("hostile",))
    verdicts = validate(draft(ERASE, turns=("bad",)), hostile, draft(ERASE, turns=("good",)), world=Breaking())
    assert said(verdicts[0]) == ("discarded", "environment_error")
    assert verdicts[0].detail == "EnvironmentFailure: the server is gone"
    assert verdicts[1].outcome == "discarded"
    assert said(verdicts[2])[1] == "duplicate"  # of a draft that passed the guard, though executing it failed
    assert said(validate(draft(ERASE, turns=("good",)), world=Breaking())[0]) == ("accepted", "solved")


def test_the_deadline_is_per_draft(draft: Drafts) -> None:
    world = ScoredWorld(lambda world, session, actions: ToySession.score(session))
    (verdict,) = validate(draft(ERASE), world=world, seconds=-1.0)
    assert said(verdict) == ("discarded", "timeout")
    assert world.closed == len(world.actions) == 1


def test_the_limit_is_dealt_out_over_contexts(draft: Drafts) -> None:
    drafts = [
        draft(f"add(counter='cat', amount={i + 1})", turns=(f"add {i + 1}",), id=f"d{i}", context_id=f"ctx-{i // 4}")
        for i in range(8)
    ]
    verdicts = validate(*drafts, limit=4)
    assert [v.reason for v in verdicts] == ["solved", "solved", "surplus", "surplus"] * 2
    assert [v.reason for v in validate(*drafts, limit=0)] == ["surplus"] * 8
    assert [v.reason for v in validate(*drafts)] == ["solved"] * 8


@pytest.mark.parametrize(
    ("refused", "limit", "asked", "reasons"),
    [
        ((), 2, [["d0", "d2"]], ["judged", "surplus"] * 2),
        (("d0",), 2, [["d0", "d2"], ["d1"]], ["judge_refused", "judged", "judged", "surplus"]),
        (("d0", "d2"), 3, [["d0", "d2", "d1"], ["d3"]], ["judge_refused", "judged"] * 2),
        (("d1",), None, [["d0", "d2", "d1", "d3"]], ["judged", "judge_refused", "judged", "judged"]),
        ((), 0, [], ["surplus"] * 4),
    ],
)
def test_a_judge_that_decides_is_asked_about_no_surplus(
    draft: Drafts, refused: tuple[str, ...], limit: int | None, asked: list[list[str]], reasons: list[str]
) -> None:
    """Two contexts of two drafts each, and one that the guard refuses before anybody is asked."""
    drafts = [
        draft(f"add(counter='cat', amount={i + 1})", turns=(f"add {i + 1}",), id=f"d{i}", context_id=f"ctx-{i // 2}")
        for i in range(4)
    ]
    twin = draft("add(counter='cat', amount=1)", turns=("add 1",), id="twin", context_id="ctx-2")
    seen: list[list[str]] = []

    def judge(some: Sequence[TaskDraft]) -> list[Judgement]:
        seen.append([one.id for one in some])
        return [Judgement(f"j-{one.id}", one.id, 1, one.id not in refused, "because") for one in some]

    verdicts = validate(*drafts, twin, limit=limit, judge=judge)
    assert seen == asked
    assert [v.reason for v in verdicts] == [*reasons, "duplicate"]


def test_a_judge_that_says_nothing_of_a_draft_is_not_asked_again(draft: Drafts) -> None:
    drafts = [draft(f"add(counter='cat', amount={i})", turns=(f"add {i}",), id=f"d{i}") for i in (1, 2, 3)]
    seen: list[list[str]] = []

    def silent(some: Sequence[TaskDraft]) -> list[Judgement]:
        seen.append([one.id for one in some])
        return []

    assert [v.reason for v in validate(*drafts, limit=2, judge=silent)] == ["judge_silent"] * 3
    assert seen == [["d1", "d2"], ["d3"]]


def test_worlds_without_a_script_draw_the_walk_from_other_drafts(draft: Drafts) -> None:
    drafts = [draft(ERASE, turns=("erase ant",)), draft("total()", turns=("sum up",), id="d2")]
    assert [v.reason for v in validate(*drafts, world=PlainWorld())] == ["solved", "solved"]
    assert validate(drafts[0], world=PlainWorld())[0].reason == "solved"


def test_verdicts_follow_from_the_occasion(draft: Drafts) -> None:
    drafts = [draft(f"add(counter='cat', amount={i + 1})", turns=(f"add {i + 1}",), id=f"d{i}") for i in range(5)]
    assert validate(*drafts) == validate(*drafts)
    known = TaskSet()
    known.append(validate_drafts(drafts, ToyWorld(), guard(), known, ONE))
    again = validate_drafts(drafts, ToyWorld(), guard(), known, Occasion(1, call=1))
    assert [v.reason for v in again] == ["duplicate"] * 5
    assert again[0].id == "verdict-r1.1-0"
