"""Talking to stored policy versions, in real sessions, without a trace in the run."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from coevolve_lab import CoEvolve, chat
from coevolve_lab.records import Task, Trajectory
from coevolve_lab.widgets.conversation import FREE, Chat
from tests.loop_world import CallListSession, LoopToy, new_run

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>"


def opened(run: Any, **options: Any) -> Chat:
    made = chat(run, **options)
    assert isinstance(made, Chat), made.error
    return made


def played(view: Chat) -> Chat:
    view.buttons["play"].click()
    assert view.wait(60)
    assert not view.error
    return view


def ids_of(trajectory: Trajectory) -> list[int]:
    return [*trajectory.prompt_ids, *(i for s in trajectory.steps for i in (*s.token_ids, *s.reply_ids))]


def test_it_offers_what_is_stored_and_loads_nothing_yet(finished: CoEvolve) -> None:
    view = opened(finished)
    assert view.version.options == (
        ("version 0 (round 0)", 0), ("version 2 (round 1)", 2), ("version 4 (round 2)", 4), ("version 6 (round 3)", 6),
    )  # fmt: skip
    assert view.version.value == 6
    tasks, evaluation = finished.tasks()["id"].to_list(), [f"toy-test_{i}" for i in range(6)]
    assert set(view.task.options) == {*tasks, *evaluation}
    view.surprise.click()
    assert view.task.value in view.task.options
    assert view._policy is None


def test_played_greedily_an_evaluation_task_is_answered_as_in_its_evaluation(finished: CoEvolve) -> None:
    files = {path: path.stat().st_mtime_ns for path in finished.run_dir.rglob("*")}
    answers = set()
    for version in (2, 6):
        view = opened(finished, version=version)
        for one in finished.reader.records(Trajectory, f"purpose = 'evaluate' and policy_version = {version}"):
            view.task.value = one.task_id
            conversation = played(view)._conversation
            assert conversation is not None
            assert ids_of(conversation.trajectory()) == ids_of(one)
            assert f"score {one.score:.2f}" in view.status_line.value
            assert view.page.value.count('class="card failed') + view.page.value.count('class="card good') == len(
                one.steps
            )
            answers.add(tuple(step.action for step in one.steps))
    assert len(answers) > 2
    assert {path: path.stat().st_mtime_ns for path in finished.run_dir.rglob("*")} == files


def test_another_version_is_another_policy(finished: CoEvolve) -> None:
    view = opened(finished, task_id="toy-test_0")
    said = {}
    for version in (0, 6, 0):
        view.version.value = version
        conversation = played(view)._conversation
        assert conversation is not None
        logprobs = [step.logprobs for step in conversation.steps]
        assert conversation.policy_version == version
        assert said.setdefault(version, logprobs) == logprobs
    assert said[0] != said[6]


def test_step_by_step_and_over_again(finished: CoEvolve) -> None:
    view = opened(finished, task_id="toy-test_0")
    assert "User" in view.page.value  # what will be asked is seen before
    lines: list[str] = []
    view.status_line.observe(lambda change: lines.append(change["new"]), "value")
    for count in (1, 2):
        view.buttons["one step"].click()
        assert view.wait(60)
        assert view._conversation is not None
        assert len(view._conversation.steps) == count
        if view._conversation.done:
            break
    assert "loading version 6 of the policy" in lines[0]
    assert "action 1 is being sampled" in lines[1]
    assert view.buttons["stop"].disabled
    view.start_over()
    assert view._conversation is None
    assert "nothing was asked yet" in view.status_line.value


def test_above_temperature_zero_every_conversation_is_another_draw(finished: CoEvolve) -> None:
    view = opened(finished, task_id="toy-test_0")
    view.temperature.value = 1.0
    said = []
    for draw in (1, 2):
        conversation = played(view)._conversation
        assert conversation is not None
        assert f"temperature 1, draw {draw}" in view.page.value
        said.append([step.logprobs for step in conversation.steps])
    assert said[0] != said[1]


class Gated(CallListSession):
    """Waits for the test before it answers."""

    entered, gate = threading.Event(), threading.Event()

    def step(self, action: str) -> tuple[str, bool]:
        self.entered.set()
        assert self.gate.wait(60)
        super().step(action)
        return "ok", False  # never done by itself


def test_stop_is_heard_while_the_agent_acts(finished: CoEvolve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LoopToy, "open", lambda self, task: Gated(task))
    view = opened(finished, task_id="toy-test_0")
    view.buttons["play"].click()
    assert Gated.entered.wait(60)
    assert view.acting
    assert view.buttons["play"].disabled
    assert not view.buttons["stop"].disabled
    view.buttons["stop"].click()
    Gated.gate.set()
    assert view.wait(60)
    assert view._conversation is not None
    assert (len(view._conversation.steps), view._conversation.done) == (1, False)
    assert "1 actions so far" in view.status_line.value
    assert not view.buttons["play"].disabled
    view.play()  # goes on where it stopped
    assert view.wait(60)
    assert len(view._conversation.steps) > 1


def test_a_free_query_is_played_in_the_tasks_state_and_can_be_talked_to(finished: CoEvolve) -> None:
    view = opened(finished, task_id="toy-test_0")
    view.source.value, view.query.value = FREE, f"reset oak {EVIL}"
    assert view.say_it.disabled
    played(view)
    conversation = view._conversation
    assert conversation is not None
    assert conversation.task.turns == (f"reset oak {EVIL}",)
    if conversation.status == "completed":
        assert "no score: a free query has no solution" in view.status_line.value
    for html in (view.page.value, view.plain()[1], view._repr_mimebundle_()["text/html"]):
        assert "<script" not in html
        assert "<img" not in html
        assert "&lt;script&gt;" in html


def test_more_is_said_once_the_agent_is_done(finished: CoEvolve) -> None:
    solved = finished.sql(
        "select task_id from trajectories where purpose = 'train' and score = 1 group by all order by 1"
    )
    view = opened(finished)
    for view.task.value in solved["task_id"]:
        if played(view)._conversation.score() == 1.0:  # type: ignore[union-attr]
            break
    before = view._conversation.trajectory()  # type: ignore[union-attr]
    assert view.status_line.value.count("score 1.00") == 1
    assert not view.say_it.disabled
    view.more.value = "sum it all up"
    view.say_it.click()
    assert view.wait(60)
    assert not view.error
    after = view._conversation.trajectory()  # type: ignore[union-attr]
    assert ids_of(after)[: len(ids_of(before))] == ids_of(before)
    assert len(after.steps) > len(before.steps)
    assert "sum it all up" in view.page.value
    assert view.page.value.count("<b>User</b>") == 2
    assert view.more.value == ""
    assert "score 1.00" in view.status_line.value  # of the task, as it was answered before
    assert "user: sum it all up" in view.plain()[0]


def test_tokens_and_the_solution_come_on_demand(finished: CoEvolve) -> None:
    view = played(opened(finished, task_id="toy-test_0"))
    conversation = view._conversation
    assert conversation is not None
    task: Task = conversation.asked
    assert 'class="token"' not in view.page.value
    view.tokens.value = True
    assert view.page.value.count('class="token"') == sum(len(step.token_ids) for step in conversation.steps)
    assert "Reference solution" not in view.page.value
    view.solution.value = True
    assert "Reference solution" in view.page.value
    assert task.solution[0][0].replace("'", "&#x27;") in view.page.value.split("Reference solution")[1]


def test_plain_is_the_conversation(finished: CoEvolve) -> None:
    view = opened(finished, task_id="toy-test_0")
    assert "nothing was asked yet" in view.plain()[0]
    played(view)
    text, html = view.plain()
    conversation = view._conversation
    assert conversation is not None
    assert f"user: {conversation.task.turns[0]}" in text
    assert all(f"agent: {step.action}" in text for step in conversation.steps)
    assert "score" in text.splitlines()[-1]
    assert "Policy version 6" in html


def test_what_is_not_there_is_said(finished: CoEvolve, tmp_path: Path) -> None:
    assert "stored versions: 0 (round 0), 2 (round 1)" in chat(finished, version=3).error
    assert "no task &#x27;nope&#x27;" in chat(finished, task_id="nope").error
    view = opened(finished)
    view.task.value = "nope"
    view.play()
    assert "no task" in view.error
    assert not view.acting
    view.task.value, view.source.value = "toy-test_0", FREE
    view.play()
    assert "the free query is empty" in view.error
    with new_run(tmp_path / "fresh") as fresh:
        assert "no stored policy yet" in opened(fresh).error


def test_what_fails_in_the_thread_is_shown(finished_dir: Path, tmp_path: Path) -> None:
    shutil.copytree(finished_dir, tmp_path / "own")
    view = opened(tmp_path / "own", task_id="toy-test_0")
    (view._reader.checkpoint(3) / "policy.safetensors").unlink()
    view.play()
    assert view.wait(60)
    assert "no usable policy checkpoint" in view.error
    assert not view.buttons["play"].disabled
    view.version.value = 4
    played(view)


def test_it_looks_on_while_the_run_goes_on(own_run: CoEvolve) -> None:
    view = opened(own_run.run_dir, task_id="toy-test_0")
    own_run.rollout()  # holds the lock, and has records that are not committed
    played(view)
    own_run.train(own_run.rollout())
    played(view)
    own_run.commit()
    view.refresh()
    assert view.version.value == 6  # the choice stays
    assert view.version.options[-1] == ("version 7 (round 4)", 7)
