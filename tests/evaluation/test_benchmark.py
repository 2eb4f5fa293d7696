"""A split played once, greedily, and what is made of the scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from coevolve_lab.config import Config
from coevolve_lab.errors import PolicyError
from coevolve_lab.evaluation.benchmark import evaluate_split
from coevolve_lab.policy.engine import Completion, Request
from coevolve_lab.policy.policy import Policy
from coevolve_lab.policy.tiny import TinyChat, train_tokenizer
from coevolve_lab.records import Task
from tests.evolution.toy_world import ToySession, ToyWorld

CHAT = TinyChat(train_tokenizer(["reset(counter='ant')", "reset ant", "done"], 300))
START = {"classes": ["counters"], "values": {}, "counters": {"ant": 1, "bee": 2}, "pool": "train"}
TASKS = [
    Task(f"toy_{name}", "toy", (f"reset {name}",), START, ((f"reset(counter='{name}')",),)) for name in ("ant", "bee")
]
READ = Task("toy_both", "toy", ("reset ant, sum",), START, (("reset(counter='ant')", "total()"),))


class FakeEngine:
    """Resets the ant in every episode, then is done."""

    policy_version = 7

    def __init__(self) -> None:
        self.asked: list[tuple[float, int]] = []
        self.spoken: set[str] = set()

    def generate(self, requests: Sequence[Request], temperature: float, seed: int) -> list[Completion]:
        self.asked.append((temperature, seed))
        said = ["done" if r.key in self.spoken else "reset(counter='ant')" for r in requests]
        self.spoken |= {r.key for r in requests}
        return [Completion(tuple(CHAT.action(text)), (-1.0,) * len(CHAT.action(text)), True) for text in said]

    def release(self, keys: Any) -> None:
        pass


def _evaluate(
    tasks: Sequence[Task], engine: FakeEngine | None = None, world: ToyWorld | None = None, **options: Any
) -> Any:
    engine = engine or FakeEngine()
    policy = Policy(None, CHAT, engine, version=7)  # type: ignore[arg-type]
    named = {"split": "test", "round": 2, "step": 20, "name": "e1", **options}
    return engine, *evaluate_split(world or ToyWorld(), tasks, policy, Config(), **named)


def test_one_greedy_trajectory_a_task_and_their_mean() -> None:
    engine, evaluation, trajectories = _evaluate(TASKS)
    assert evaluation.outcomes == {"toy_ant": 1.0, "toy_bee": 0.0}
    assert (evaluation.score, evaluation.tasks, evaluation.split) == (0.5, 2, "test")
    assert (evaluation.policy_version, evaluation.round, evaluation.step) == (7, 2, 20)
    assert evaluation.stderr > 0
    assert {temperature for temperature, _ in engine.asked} == {0.0}
    assert [t.purpose for t in trajectories] == ["evaluate"] * 2
    assert all(t.id.startswith("e1") for t in trajectories)


def test_a_task_solved_in_part_is_not_solved() -> None:
    _, evaluation, trajectories = _evaluate([READ])
    assert trajectories[0].score == 0.5
    assert evaluation.outcomes == {"toy_both": 0.0}
    assert evaluation.score == 0.0
    assert evaluation.detail["partial_score"] == 0.5


def test_known_defects_are_told_apart_and_not_left_out() -> None:
    _, evaluation, _ = _evaluate(TASKS, defects={"toy_bee", "elsewhere"})
    assert evaluation.score == 0.5
    assert evaluation.detail["without_known_defects"] == 1.0
    _, clean, _ = _evaluate(TASKS, defects={"elsewhere"})
    assert "without_known_defects" not in clean.detail
    _, hopeless, _ = _evaluate(TASKS, defects={"toy_ant", "toy_bee"})
    assert hopeless.score == 0.5
    assert "without_known_defects" not in hopeless.detail


def test_the_temperature_can_be_another() -> None:
    engine, *_ = _evaluate(TASKS, temperature=0.7)
    assert {temperature for temperature, _ in engine.asked} == {0.7}


class Failing(FakeEngine):
    """Fails in the first ``failures`` calls."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.failures = failures

    def generate(self, requests: Sequence[Request], temperature: float, seed: int) -> list[Completion]:
        if self.failures > 0:
            self.failures -= 1
            raise PolicyError("out of memory")
        return super().generate(requests, temperature, seed)


def test_what_the_engine_did_not_play_is_played_again_and_never_scored() -> None:
    _, evaluation, trajectories = _evaluate(TASKS, engine=Failing(1))
    assert (evaluation.outcomes, evaluation.tasks) == ({"toy_ant": 1.0, "toy_bee": 0.0}, 2)
    assert {t.status for t in trajectories} == {"completed"}
    assert [t.task_id for t in trajectories] == [task.id for task in TASKS]
    with pytest.raises(PolicyError, match=r"in 2 of 2 episodes the policy engine failed \(out of memory\)"):
        _evaluate(TASKS, engine=Failing(2))


def test_a_failing_environment_is_told_and_counted() -> None:
    class Closed(ToyWorld):
        def open(self, task: Task) -> ToySession:
            if task.id == "toy_ant":
                raise OSError("the server is gone")
            return super().open(task)

    with pytest.warns(UserWarning, match=r"in 1 of 2 episodes the environment failed \(OSError: the server is gone\)"):
        _, evaluation, _ = _evaluate(TASKS, world=Closed())
    assert evaluation.detail["env_errors"] == 1
    assert "env_errors" not in _evaluate(TASKS)[1].detail


def test_progress_counts_every_task() -> None:
    counted: list[int] = []
    _evaluate(TASKS, progress=counted.append)
    assert sum(counted) == pytest.approx(2)
