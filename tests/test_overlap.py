"""``rollout.max_staleness`` 1 at toy size: rounds whose next step is sampled, by a fake server, while one trains."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from coevolve_lab import CoEvolve
from coevolve_lab.environments import register_environment
from coevolve_lab.policy.vllm_engine import VllmEngine
from coevolve_lab.records import StageCost, Task, Trajectory, Update
from tests.loop_world import CONFIG, CallListSession, LoopToy, assert_nothing_twice
from tests.policy.fake_vllm import Body, FakeVllm
from tests.policy.small_models import save_model

PATIENCE = 30.0  # seconds, on a busy machine
Reply = Callable[[Body], tuple[int, bytes]]


class CoinSession(CallListSession):
    """The two characters that the fake server always says score by chance: there is something to learn."""

    lucky, said = 0, ""

    def step(self, action: str) -> tuple[str, bool]:
        self.said += action
        return super().step(action)

    def score(self) -> float:
        return float(self.lucky) if len(self.said) == 2 else super().score()


class CoinToy(LoopToy):
    def __init__(self, size: int = 2, max_observation_chars: int = 40) -> None:
        super().__init__(size, max_observation_chars)
        self.coin = itertools.count()

    def open(self, task: Task) -> CallListSession:
        session = CoinSession(task)
        session.lucky = next(self.coin) % 2
        return session


register_environment("overlap-toy", CoinToy)


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model("llama", tmp_path_factory.mktemp("overlap") / "model")


@pytest.fixture
def fake() -> Iterator[FakeVllm]:
    server = FakeVllm()
    server.room = 4096
    yield server
    server.close()


@pytest.fixture
def new_run(fake: FakeVllm, model_folder: Path, tmp_path: Path) -> Iterator[Callable[..., CoEvolve]]:
    """new_run(max_staleness, steps a round): with D_0 found. At the end nothing of it may be left."""
    runs: list[CoEvolve] = []

    def make(max_staleness: int = 1, steps: int = 3, **more: Any) -> CoEvolve:
        tree = {
            **CONFIG,
            # The fake server scores tokens as it likes: no version of the policy would be proven, no gap be small.
            "engine": {"kind": "vllm", "url": fake.url, "proof_tolerance": 1e6},
            "environment": {"name": "overlap-toy", "max_steps": 2, "max_observation_chars": 40},
            "policy": {"model": str(model_folder), "dtype": "float32", "device": "cpu", "lora": {"rank": 2}},
            "rollout": {"tasks_per_step": 2, "group_size": 2, "max_action_tokens": 8, "max_staleness": max_staleness},
            "training": {"steps_per_round": steps, "gap_alarm": 99, "learning_rate": 1e-3},
            **more,
        }  # fmt: skip
        run = CoEvolve(tree, tmp_path / f"run-{len(runs)}", progress=False, evolution={"initial_tasks": 4})
        runs.append(run)
        run.seed_tasks()
        return run

    yield make
    for run in runs:
        run.close()
    assert not any(thread.name == "coevolve-ahead" for thread in threading.enumerate())


def engine_of(run: CoEvolve) -> VllmEngine:
    engine = run.parts.policy.engine
    assert isinstance(engine, VllmEngine)
    return engine


def versions(run: CoEvolve) -> dict[int, set[int]]:
    """Which versions sampled the rollouts of each step."""
    found: dict[int, set[int]] = {}
    for trajectory in run.reader.records(Trajectory, "purpose = 'train'"):
        found.setdefault(trajectory.step, set()).add(trajectory.policy_version)
    return found


def assert_at_rest(run: CoEvolve, fake: FakeVllm) -> None:
    """No thread, no request, no version held, no adapter but the present one."""
    engine = engine_of(run)
    assert not any(thread.name == "coevolve-ahead" for thread in threading.enumerate())
    assert not engine._flights
    assert not engine._open
    assert not +engine._versions._users
    assert len(fake.adapters) == 1


def while_training(
    run: CoEvolve, fake: FakeVllm, act: Callable[[int], None], until: threading.Event | None = None
) -> None:
    """``act(step)`` once the server has been asked for the next step's rollouts, before the step that is going on
    trains. The server keeps them waiting until it has trained, or as given."""
    learn = run.parts.trainer.step

    def step(batch: Any, *, step: int, **given: Any) -> Update:
        asked, go_on, main = threading.Event(), until or threading.Event(), fake.reply

        def waiting(body: Body) -> tuple[int, bytes]:
            asked.set()
            assert go_on.wait(PATIENCE)
            return fake.honest(body)

        fake.reply = waiting
        try:
            if run._lookahead.draw is not None:
                assert asked.wait(PATIENCE)
            act(step)
            return learn(batch, step=step, **given)
        finally:
            fake.reply = main
            if until is None:
                go_on.set()

    run.parts.trainer.step = step  # type: ignore[assignment, method-assign]


def test_within_a_round_the_next_step_is_sampled_while_one_trains(
    new_run: Callable[..., CoEvolve], fake: FakeVllm
) -> None:
    seen: list[int] = []
    run = new_run()
    begun = len(fake.used)
    while_training(run, fake, seen.append)
    run.round()
    assert versions(run) == {1: {0}, 2: {0}, 3: {1}}
    assert_at_rest(run, fake)
    assert len(fake.used) - begun == 3  # versions 0, 1 and 3: nobody samples from 2
    run.round()
    assert versions(run) == {1: {0}, 2: {0}, 3: {1}, 4: {3}, 5: {3}, 6: {4}}
    assert seen == [1, 2, 3, 4, 5, 6]
    updates = run.reader.records(Update)
    assert [(u.staleness_largest, u.stale) for u in updates] == [(0, 0), (1, 0), (1, 0)] * 2
    assert all(u.gradient_norm > 0 for u in updates)
    assert_nothing_twice(run)
    assert_at_rest(run, fake)
    costs = run.reader.records(StageCost, "stage in ('rollout', 'evaluate')")
    assert sum(cost.swaps for cost in costs) == engine_of(run).swaps == 5  # 3 is there already when round 2 begins
    assert all((cost.swap_seconds > 0) == (cost.swaps > 0) for cost in costs)
    assert sum(cost.items for cost in costs if cost.stage == "rollout") == 6 * 4


def test_tasks_ids_and_visits_are_those_of_a_run_without_overlap(
    new_run: Callable[..., CoEvolve], fake: FakeVllm
) -> None:
    ahead, strict = new_run(1), new_run(0)
    drawn = []
    for run in (ahead, strict):
        for _ in range(2):
            run.round()
        tables = "select id, task_id, group_id, round, step from trajectories where purpose = 'train' and round = 1"
        drawn.append((run.sql(tables).rows(), run.parts.visits))
    assert drawn[0] == drawn[1]
    assert versions(strict) == {step: {step - 1} for step in range(1, 7)}
    assert all(update.staleness_largest == 0 for update in strict.reader.records(Update))


@pytest.mark.parametrize("at", ["training", "signals", "waiting", "pausing"])
def test_an_interrupt_leaves_nothing_behind_and_the_round_goes_on(
    new_run: Callable[..., CoEvolve], fake: FakeVllm, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted: list[str] = []
    run, over = new_run(), threading.Event()

    def interrupt(*_: Any, **__: Any) -> Any:
        interrupted.append(at)
        fake.reply = fake.honest
        raise KeyboardInterrupt

    if at == "training":
        while_training(run, fake, lambda step: None if step != 1 or interrupted else interrupt())
    elif at == "signals":
        monkeypatch.setattr("coevolve_lab.stages.find_signals", interrupt)
    elif at == "waiting":
        monkeypatch.setattr("coevolve_lab.policy.ahead.wait_for", interrupt)
        while_training(run, fake, lambda step: None, over)
    else:
        monkeypatch.setattr(run, "watcher", Pausing(interrupt))
    with pytest.raises(KeyboardInterrupt):
        run.round()
    assert interrupted
    assert_at_rest(run, fake)
    over.set()
    monkeypatch.undo()
    run.round()
    assert run.reader.committed_round == 1
    first = {1: {0}, 2: {0}, 3: {1}}
    # What was sampled ahead of a step that had trained is sampled anew, by then with the version that it made.
    assert versions(run) == (first if at == "training" else {**first, 2: {1}})
    assert_nothing_twice(run)
    assert_at_rest(run, fake)


class Pausing:
    """A watcher that interrupts before the rollouts of the second step."""

    def __init__(self, interrupt: Callable[[], None]) -> None:
        self.interrupt = interrupt

    def stage_begins(self, stage: str, round: int, steps_done: int) -> None:
        if stage == "rollout" and steps_done == 1:
            self.interrupt()

    def stage_ends(self, *_: Any) -> None: ...

    def bar(self, what: str, total: int) -> Any:
        from tqdm import tqdm

        return tqdm(total=total, disable=True)


def test_a_server_that_broke_meanwhile_costs_the_overlap_and_not_the_step(
    new_run: Callable[..., CoEvolve], fake: FakeVllm
) -> None:
    run = new_run()

    def broken(step: int) -> None:
        if step == 1:
            fake.reply = lambda body: (500, b"out of order")
            fake.adapters.clear()

    while_training(run, fake, broken)
    with pytest.warns(UserWarning, match="step 2 was sampled ahead in vain"):
        run.round()
    assert versions(run) == {1: {0}, 2: {1}, 3: {1}}
    assert all(t.status != "engine_error" for t in run.reader.records(Trajectory))
    assert_nothing_twice(run)


def test_what_goes_wrong_in_the_thread_is_raised_by_the_next_rollout(
    new_run: Callable[..., CoEvolve], fake: FakeVllm, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run()

    def fails(*_: Any) -> Any:
        raise ZeroDivisionError("of a benchmark that cannot close its session")

    def during(step: int) -> None:
        if step == 1:
            monkeypatch.setattr(CallListSession, "close", fails)

    while_training(run, fake, during)
    with pytest.raises(ZeroDivisionError):
        run.round()
    assert run.step == 1
    assert_at_rest(run, fake)
    monkeypatch.undo()
    run.round()
    assert set(versions(run)) == {1, 2, 3}
    assert_nothing_twice(run)


def test_by_hand_nothing_overlaps_and_what_is_too_old_is_refused(
    new_run: Callable[..., CoEvolve], fake: FakeVllm
) -> None:
    run = new_run()
    batch = run.rollout()
    assert run.train(batch).staleness_largest == 0
    assert run._lookahead.draw is None
    assert run.train(batch).staleness_largest == 1
    with pytest.warns(UserWarning, match="4 of 4 trajectories are not trained"):
        refused = run.train(batch)
    assert (refused.stale, refused.trajectories, refused.trained_tokens, refused.gradient_norm) == (4, 4, 0, 0.0)
    run.evaluate()
    run.round()
    assert_at_rest(run, fake)
