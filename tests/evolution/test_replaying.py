"""A replay agrees with the gate, shows every call, and ends."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coevolve_lab.config import EvolutionConfig
from coevolve_lab.evolution import Guard, Occasion, validate_drafts
from coevolve_lab.evolution.replaying import CONTROLS, replay_controls, replay_solution
from coevolve_lab.records import TaskDraft
from tests.evolution.test_validation import ScoredWorld
from tests.evolution.toy_world import ToyWorld

Drafts = Callable[..., TaskDraft]
PUT, SHOW, ERASE, WRONG = "put(key='ant', text='red')", "show(key='ant')", "erase(key='ant')", "show(key='zebra')"


def test_every_call_is_shown_with_its_answer(draft: Drafts) -> None:
    replay = replay_solution(ToyWorld(), draft(PUT, SHOW, turns=("store red under ant and show ant",)))
    assert [(c.turn, c.call, c.observation, c.failed) for c in replay.calls] == [
        (0, PUT, "ok", False),
        (0, SHOW, "ant is red", False),
    ]
    assert (replay.score, replay.stopped) == (1.0, "")


def test_a_replay_scores_what_validation_scored(draft: Drafts) -> None:
    drafts = [draft(ERASE, turns=("erase ant",)), draft(WRONG, turns=("show zebra",)), draft(PUT, WRONG, turns=("x",))]
    guard = Guard.from_config(EvolutionConfig(min_calls=1), ())
    verdicts = validate_drafts(drafts, ToyWorld(), guard, [], Occasion(1))
    replays = [replay_solution(ToyWorld(), one) for one in drafts]
    assert [replay.score for replay in replays] == [verdict.score for verdict in verdicts]
    assert [any(call.failed for call in replay.calls) for replay in replays] == [False, True, True]
    assert verdicts[0].outcome == "accepted"
    assert verdicts[0].task is not None
    assert replay_solution(ToyWorld(), verdicts[0].task) == replays[0]


def test_an_episode_that_ends_early_is_played_no_further(draft: Drafts) -> None:
    world = ScoredWorld(lambda world, session, actions: 1.0)
    replay = replay_solution(world, draft("no call at all", ERASE, turns=("hello",)))
    assert [call.call for call in replay.calls] == ["no call at all"]
    assert world.actions == [["no call at all"]]
    assert world.closed == 1


def test_controls_are_scored_in_sessions_of_their_own(draft: Drafts) -> None:
    assert replay_controls(ToyWorld(), draft(ERASE, turns=("erase ant",))) == dict.fromkeys(CONTROLS, 0.0)
    lax = ScoredWorld(lambda world, session, actions: float(len(world.actions) == 2))
    assert list(replay_controls(lax, draft(ERASE, turns=("erase ant",))).values()) == [0.0, 1.0]
    assert lax.actions == [["Done."], ["erase ant"]]
    assert lax.closed == 2


def test_calls_and_seconds_are_bounded(draft: Drafts) -> None:
    long = draft(*[SHOW] * 9, turns=("look",))
    cut = replay_solution(ToyWorld(), long, most_calls=4)
    assert (len(cut.calls), cut.score, cut.stopped) == (4, None, "stopped after 4 calls")
    late = replay_solution(ToyWorld(), long, seconds=-1)
    assert (late.calls, late.score) == ([], None)
    assert "seconds" in late.stopped
    assert replay_controls(ToyWorld(), long, seconds=-1)["repeating the prompt"] is None


def test_a_session_is_closed_when_the_environment_fails(draft: Drafts) -> None:
    def fail(*_: object) -> float:
        raise RuntimeError("no verifier")

    world = ScoredWorld(fail)
    with pytest.raises(RuntimeError, match="no verifier"):
        replay_solution(world, draft(ERASE, turns=("erase ant",)))
    assert world.closed == 1
