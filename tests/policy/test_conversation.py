"""A conversation is the rollout, watched: same ids, same observations, and one can say more."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from coevolve_lab import CoEvolve
from coevolve_lab.assembly import stored_policy
from coevolve_lab.config import RolloutConfig
from coevolve_lab.environments import make
from coevolve_lab.errors import EnvironmentFailure, PolicyError
from coevolve_lab.policy.conversation import Conversation, free_task
from coevolve_lab.policy.engine import Completion, Request
from coevolve_lab.policy.policy import Policy
from coevolve_lab.policy.rollout import play
from coevolve_lab.policy.tiny import TinyChat, train_tokenizer
from coevolve_lab.records import Task, Trajectory
from tests.evolution.toy_world import ToySession, ToyWorld
from tests.loop_world import new_run, warm_cache

pytestmark = pytest.mark.usefixtures(warm_cache.__name__)

LIMITS = RolloutConfig(max_action_tokens=60, max_response_tokens=90)
CHAT = TinyChat(train_tokenizer(["add(counter='ant', amount=2)", "add 2 to ant", "done", "cd(folder='x')"], 300))
START = {"classes": ["counters"], "values": {}, "counters": {"ant": 1}, "pool": "train"}
TASK = Task("toy_1", "toy", ("add 2 to ant",), START, (("add(counter='ant', amount=2)",),))


class FakeEngine:
    """Says the lines of a script, one an action; stands where a policy would sample."""

    policy_version = 7

    def __init__(self, *lines: str) -> None:
        self.lines, self.requests, self.released = list(lines), [], set()

    def generate(self, requests: Sequence[Request], temperature: float, seed: int) -> list[Completion]:
        self.requests += [dataclasses.replace(request, ids=list(request.ids)) for request in requests]
        if not self.lines:
            raise PolicyError("out of memory")
        ids = tuple(CHAT.action(self.lines.pop(0)))
        return [Completion(ids, (-1.0,) * len(ids), True)]

    def release(self, keys: Sequence[str]) -> None:
        self.released |= set(keys)


def talk(*lines: str, task: Task = TASK, world: Any = None, max_steps: int = 5, **limits: Any) -> Conversation:
    policy = Policy(None, CHAT, FakeEngine(*lines), 7)  # type: ignore[arg-type]
    limits_ = LIMITS.model_copy(update=limits)
    return Conversation(world or ToyWorld(), policy, task, limits=limits_, max_steps=max_steps)


def play_out(conversation: Conversation) -> None:
    while conversation.step() is not None:
        pass


def ids_of(trajectory: Trajectory) -> list[int]:
    return [*trajectory.prompt_ids, *(i for s in trajectory.steps for i in (*s.token_ids, *s.reply_ids))]


# ---- the same as a rollout, with a trained policy


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, warm_cache: Path) -> Iterator[CoEvolve]:
    """One round; its evaluation is of the version that the round ends with."""
    with new_run(tmp_path_factory.mktemp("conversation") / "run", rounds=1) as made:
        made.rounds()
        yield made


def test_a_greedy_conversation_is_the_trajectory_that_the_evaluation_recorded(run: CoEvolve) -> None:
    environment, policy = stored_policy(run.config, run.reader, 1)
    tasks = {task.id: task for task in environment.tasks("test")}
    recorded = run.reader.records(Trajectory, f"purpose = 'evaluate' and policy_version = {policy.version}")
    assert len(recorded) == len(tasks)
    for one in recorded:
        said = Conversation(
            environment,
            policy,
            tasks[one.task_id],
            limits=run.config.rollout,
            max_steps=run.config.environment.max_steps,
        )
        play_out(said)
        assert ids_of(said.trajectory()) == ids_of(one)
        assert [(s.action, s.observation, s.tools) for s in said.steps] == [
            (s.action, s.observation, s.tools) for s in one.steps
        ]
        assert (said.status, said.score()) == (one.status, one.score)
        for mine, theirs in zip(said.steps, one.steps, strict=True):  # theirs were computed in a larger batch
            assert mine.logprobs == pytest.approx(theirs.logprobs, abs=1e-4)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_at_one_seed_it_is_what_a_rollout_of_one_episode_samples(run: CoEvolve, temperature: float) -> None:
    environment, policy = stored_policy(run.config, run.reader, 0)
    limits, most = run.config.rollout, run.config.environment.max_steps
    actions = set()
    for seed, task in enumerate(run.task_set):
        (played,) = play(
            environment, [task], policy.engine, policy.chat, limits, group_size=1, temperature=temperature,
            max_steps=most, seed=seed, label="x",
        )  # fmt: skip
        said = Conversation(
            environment, policy, task, limits=limits, max_steps=most, temperature=temperature, seed=seed
        )
        play_out(said)
        assert said.trajectory().steps == played.steps  # to the bit, log-probabilities included
        assert said.trajectory().prompt_ids == played.prompt_ids
        assert (said.status, said.score(), said.policy_version) == (played.status, played.score, played.policy_version)
        actions |= {step.action for step in said.steps}
        said.close()
    assert len(actions) > len(run.task_set) / 2  # not one answer to everything


# ---- step by step


def test_it_waits_after_every_action() -> None:
    conversation = talk("add(counter='ant', amount=2)", "done")
    assert (conversation.steps, conversation.done, conversation.score()) == ((), False, None)
    first = conversation.step()
    assert first is not None
    assert (first.action, first.observation) == ("add(counter='ant', amount=2)", "ok")
    assert (conversation.done, conversation.score()) == (False, None)
    conversation.step()
    assert (conversation.done, conversation.status, conversation.score()) == (True, "completed", 1.0)
    assert conversation.step() is None
    assert len(conversation.steps) == 2


def test_running_out_scores_nothing_and_cannot_be_talked_over() -> None:
    conversation = talk(*["add(counter='ant', amount=2)"] * 9, max_steps=2)
    play_out(conversation)
    assert (conversation.status, conversation.score(), len(conversation.steps)) == ("truncated_steps", 0.0, 2)
    with pytest.raises(PolicyError, match="truncated_steps"):
        conversation.say("go on")


def test_a_broken_engine_ends_it_with_a_status() -> None:
    conversation = talk("add(counter='ant', amount=2)")
    play_out(conversation)
    assert (conversation.status, conversation.detail, conversation.score()) == ("engine_error", "out of memory", 0.0)


class Unopened(ToyWorld):
    def open(self, task: Task) -> ToySession:
        raise OSError("cannot start")


def test_a_session_that_cannot_be_opened_is_a_status() -> None:
    conversation = talk("done", world=Unopened())
    assert (conversation.status, conversation.step(), conversation.turn) == ("env_error", None, 0)
    assert "cannot start" in conversation.detail


def test_time_that_a_person_takes_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    conversation = talk("add(counter='ant', amount=2)", "done", episode_seconds=10)
    conversation.step()
    clock[0] += 3600
    conversation.step()
    assert conversation.status == "completed"


# ---- saying more


def test_what_is_said_next_is_heard_as_the_user_after_the_very_ids_that_were_sampled() -> None:
    conversation = talk("add(counter='ant', amount=2)", "done", "total()", "it is 3")
    play_out(conversation)
    before = ids_of(conversation.trajectory())
    conversation.say("sum it all up")
    assert (conversation.done, conversation.turn, conversation.task.turns[-1]) == (False, 1, "sum it all up")
    after = ids_of(conversation.trajectory())
    assert after == [*before, *CHAT.reply("sum it all up", from_user=True)]
    play_out(conversation)
    assert [step.observation for step in conversation.steps] == ["ok", "sum it all up", "total is 3", ""]
    assert [step.turn for step in conversation.steps] == [0, 0, 1, 1]
    engine: Any = conversation._engine
    assert list(engine.requests[2].ids) == after
    assert conversation.score() == 1.0  # of the task, as it was answered; nothing scores what came later


def test_each_message_has_steps_and_tokens_of_its_own() -> None:
    call = "add(counter='ant', amount=2)"
    room = 2 * len(CHAT.action(call)) + len(CHAT.action("done")) + 1
    conversation = talk(*[call, call, "done"] * 3, max_steps=3, max_response_tokens=room)
    for _ in range(2):
        play_out(conversation)
        assert conversation.status == "completed"
        conversation.say("again")
    play_out(conversation)
    assert (conversation.status, len(conversation.steps)) == ("completed", 9)


def test_nothing_can_be_said_while_the_agent_acts() -> None:
    conversation = talk("add(counter='ant', amount=2)", "done")
    conversation.step()
    with pytest.raises(PolicyError, match="not over"):
        conversation.say("hurry")


class Forgetful(ToyWorld):
    """Answers differently in each session."""

    opened = 0

    def open(self, task: Task) -> ToySession:
        self.opened += 1
        return Numbered(task, self.opened)


class Numbered(ToySession):
    def __init__(self, task: Task, number: int) -> None:
        super().__init__(task)
        self.number = number

    def _run(self, name: str, given: dict[str, Any]) -> str:
        return f"ok in session {self.number}"


class SingleTurn(ToyWorld):
    """Takes the first message only."""

    def open(self, task: Task) -> ToySession:
        return ToySession(dataclasses.replace(task, turns=task.turns[:1]))


@pytest.mark.parametrize(
    ("world", "message"),
    [(Forgetful(), "answered differently .*session 2.*session 1"), (SingleTurn(), "begin a new conversation")],
)
def test_what_cannot_go_on_says_why_and_stays_as_it_was(world: ToyWorld, message: str) -> None:
    conversation = talk("add(counter='ant', amount=2)", "done", world=world)
    play_out(conversation)
    before = conversation.trajectory()
    with pytest.raises(EnvironmentFailure, match=message):
        conversation.say("and more")
    assert conversation.trajectory() == before
    assert conversation.done


def test_a_free_query_has_no_score() -> None:
    conversation = talk("total()", "it is 1", task=free_task("sum it all up", TASK))
    play_out(conversation)
    assert (conversation.status, conversation.score()) == ("completed", None)
    assert [step.observation for step in conversation.steps] == ["total is 1", ""]


def test_closing_lets_the_engine_forget_it() -> None:
    conversation = talk("done")
    play_out(conversation)
    conversation.close()
    engine: Any = conversation._engine
    assert engine.released == {request.key for request in engine.requests}


def test_a_bfcl_case_is_asked_further_in_the_state_that_the_agent_left() -> None:
    world = make("bfcl")
    start = next(task for task in world.tasks("explore") if "GorillaFileSystem" in task.start["involved_classes"])
    task = free_task("make a file called note.txt", start)
    calls = ["[touch(file_name='note.txt')]", "Done.", "[echo(content='hello', file_name='note.txt')]", "Done."]
    conversation = talk(*calls, "[cat(file_name='note.txt')]", "It says hello.", task=task, world=world)
    play_out(conversation)
    for more in ("write hello into it", "what does it say?"):
        conversation.say(more)
        play_out(conversation)
    assert conversation.status == "completed", conversation.detail
    assert (conversation.turn, conversation.score()) == (2, None)
    assert "hello" in conversation.steps[4].observation
    assert not any(step.failed for step in conversation.steps)


def test_an_official_case_keeps_its_score_when_more_is_said() -> None:
    world = make("bfcl")
    case = next(task for task in world.tasks("test") if len(task.turns) == 2 and task.id not in world.known_defects())
    lines = [line for calls in case.solution for line in (f"[{', '.join(calls)}]", "Done.")]
    roomy = {"max_action_tokens": 2000, "max_response_tokens": 9000}
    conversation = talk(*lines, "You are welcome.", task=case, world=world, **roomy)
    play_out(conversation)
    assert (conversation.status, conversation.score()) == ("completed", 1.0)
    conversation.say("thank you")
    play_out(conversation)
    assert (conversation.status, conversation.score()) == ("completed", 1.0)
    assert conversation.steps[-1].action == "You are welcome."
