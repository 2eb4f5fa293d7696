"""Episodes end with a status, whatever happens in them (design rule 1)."""

import pytest

from coevolve_lab.config import RolloutConfig
from coevolve_lab.errors import PolicyError
from coevolve_lab.policy.engine import Completion
from coevolve_lab.policy.rollout import play, stable_seed
from coevolve_lab.policy.tiny import TinyChat, train_tokenizer
from coevolve_lab.records import Task
from tests.evolution.toy_world import ToySession, ToyWorld

START = {"classes": ["counters"], "values": {}, "counters": {"ant": 1}, "pool": "train"}
SOLVED = Task("toy_1", "toy", ("add 2 to ant",), START, (("add(counter='ant', amount=2)",),))
TWO_TURNS = Task(
    "toy_2", "toy", ("add 2 to ant", "reset ant"), START, (("add(counter='ant', amount=2)",), ("reset(counter='ant')",))
)
CHAT = TinyChat(train_tokenizer(["add(counter='ant', amount=2)", "add 2 to ant", "done"], 300))
CONFIG = RolloutConfig(max_action_tokens=40, max_response_tokens=60, max_parse_errors=2)


class FakeEngine:
    """Says each line of a script in turn, the same in every episode; stands where a policy would sample."""

    policy_version = 7

    def __init__(self, *lines, cut=False):
        self.lines, self.cut, self.spoken, self.requests = lines, cut, {}, []

    def generate(self, requests, temperature, seed):
        self.requests += requests
        return [self._say(request.key) for request in requests]

    def _say(self, key):
        n = self.spoken[key] = self.spoken.get(key, -1) + 1
        line = self.lines[min(n, len(self.lines) - 1)]
        ids = tuple(CHAT.action(line))
        return Completion(ids[:-1] if self.cut else ids, (-1.0,) * (len(ids) - self.cut), not self.cut)

    def release(self, keys):
        self.released = set(keys)


def _play(engine, *tasks, world=None, config=CONFIG, max_steps=5, group_size=2):
    options = {"group_size": group_size, "temperature": 0.9, "max_steps": max_steps, "seed": 0, "label": "t"}
    return play(world or ToyWorld(), tasks, engine, CHAT, config, step=3, round=1, **options)


def test_an_episode_is_kept_token_by_token():
    engine = FakeEngine("add(counter='ant', amount=2)", "done")
    first, second = _play(engine, SOLVED)
    assert (first.status, first.score, first.policy_version, first.step, first.round) == ("completed", 1.0, 7, 3, 1)
    assert first.group_id == second.group_id
    assert first.id != second.id
    assert first.tools == ("add",)
    assert [step.action for step in first.steps] == ["add(counter='ant', amount=2)", "done"]
    whole = list(first.prompt_ids) + [i for step in first.steps for i in (*step.token_ids, *step.reply_ids)]
    for request in (r for r in engine.requests if r.key == first.id):  # every prompt is a prefix of the sequence
        assert whole[: len(request.ids)] == list(request.ids)
    assert all(len(step.token_ids) == len(step.logprobs) for step in first.steps)
    assert engine.released == {first.id, second.id}


def test_the_next_user_turn_is_heard_as_the_user():
    trajectory = _play(FakeEngine("add(counter='ant', amount=2)", "done", "reset(counter='ant')", "done"), TWO_TURNS)[0]
    assert trajectory.score == 1.0
    assert [step.turn for step in trajectory.steps] == [0, 0, 1, 1]
    assert trajectory.steps[1].reply_ids == tuple(CHAT.reply("reset ant", from_user=True))
    assert trajectory.steps[0].reply_ids == tuple(CHAT.reply("ok", from_user=False))


@pytest.mark.parametrize(
    ("engine", "config", "max_steps", "status"),
    [
        (
            FakeEngine("add(counter='ant', amount=2)"),
            CONFIG.model_copy(update={"max_response_tokens": 999}),
            3,
            "truncated_steps",
        ),
        (
            FakeEngine("add(counter='ant', amount=2)"),
            CONFIG.model_copy(update={"max_response_tokens": 20}),
            9,
            "truncated_tokens",
        ),
        (FakeEngine("add(counter='ant', amount=2)", cut=True), CONFIG, 9, "truncated_tokens"),
        (FakeEngine("add(counter='ant', amount=2)"), CONFIG.model_copy(update={"episode_seconds": 1e-9}), 9, "timeout"),
    ],
)
def test_running_out_is_failure_with_a_status(engine, config, max_steps, status):
    for trajectory in _play(engine, SOLVED, config=config, max_steps=max_steps):
        assert (trajectory.status, trajectory.score) == (status, 0.0)
        assert trajectory.detail


def test_time_that_others_and_the_engine_take_is_no_timeout(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])

    class Stalling(FakeEngine):
        def generate(self, *given):
            clock[0] += 3600
            return super().generate(*given)

    for trajectory in _play(Stalling("add(counter='ant', amount=2)", "done"), SOLVED):
        assert (trajectory.status, trajectory.score) == ("completed", 1.0)
        assert trajectory.seconds >= 3600


class Unreadable(ToySession):
    def step(self, action):
        self.last_tools, self.last_failed = (), True
        return "error: cannot be read", False


class Broken(ToySession):
    def step(self, action):
        raise RuntimeError("the server is gone")


class Unscored(ToySession):
    def score(self):
        return float("nan")


class BrokenWorld(ToyWorld):
    """Breaks for one task only, in the way it was told."""

    def __init__(self, session, breaks="toy_1"):
        super().__init__()
        self.session, self.breaks = session, breaks

    def open(self, task):
        if task.id != self.breaks:
            return ToySession(task)
        if self.session is None:
            raise OSError("cannot start")
        return self.session(task)


@pytest.mark.parametrize(
    ("session", "status"),
    [(Unreadable, "parse_error"), (Broken, "env_error"), (Unscored, "env_error"), (None, "env_error")],
)
def test_one_broken_session_never_reaches_its_neighbours(session, status):
    other = Task("toy_9", "toy", SOLVED.turns, START, SOLVED.solution)
    played = _play(FakeEngine("add(counter='ant', amount=2)", "done"), SOLVED, other, world=BrokenWorld(session))
    assert [t.status for t in played] == [status, status, "completed", "completed"]
    assert [t.score for t in played] == [0.0, 0.0, 1.0, 1.0]


class BrokenEngine(FakeEngine):
    def generate(self, requests, temperature, seed):
        if self.spoken:
            raise PolicyError("out of memory")
        return super().generate(requests, temperature, seed)


def test_a_broken_engine_ends_the_wave_with_a_status():
    played = _play(BrokenEngine("add(counter='ant', amount=2)"), SOLVED)
    assert {t.status for t in played} == {"engine_error"}
    assert "out of memory" in played[0].detail


def test_waves_bound_the_episodes_in_flight():
    engine = FakeEngine("done")
    played = _play(engine, *[SOLVED] * 5, config=CONFIG.model_copy(update={"concurrency": 3}))
    assert len({t.id for t in played}) == 10
    assert len({t.group_id for t in played}) == 5


def test_seeds_are_stable_and_named():
    assert stable_seed("a", 1) == stable_seed("a", 1) != stable_seed("a1", "")
    assert 0 <= stable_seed(0) < 2**63


class NarrowWorld(ToyWorld):
    """A toy world whose sessions need a process each, of which there are two."""

    max_sessions = 2

    def __init__(self):
        super().__init__()
        self.open_now = self.most = 0

    def open(self, task):
        world = self
        world.open_now += 1
        world.most = max(world.most, world.open_now)
        assert world.open_now <= world.max_sessions

        class Counted(ToySession):
            def close(self):
                world.open_now -= 1

        return Counted(task)


def test_no_more_sessions_are_open_than_an_environment_can_hold():
    world = NarrowWorld()
    played = _play(FakeEngine("add(counter='ant', amount=2)", "done"), SOLVED, SOLVED, world=world, group_size=3)
    assert [t.score for t in played] == [1.0] * 6
    assert (world.most, world.open_now) == (2, 0)
