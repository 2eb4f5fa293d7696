"""One version for as long as somebody samples from it, and batches that a thread plays, against a fake server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coevolve_lab.config import EngineConfig
from coevolve_lab.errors import PolicyError
from coevolve_lab.policy.ahead import Ahead, Progress
from coevolve_lab.policy.engine import Engine, Request
from coevolve_lab.policy.vllm_engine import VllmEngine
from coevolve_lab.records import Trajectory
from tests.policy.fake_vllm import Body, FakeVllm, logprob
from tests.policy.test_vllm_engine import ASKED, adapter

OLD, NEW = "v0001-aaaaaaaa", "v0002-bbbbbbbb"
PATIENCE = 20.0  # seconds


@pytest.fixture
def fake() -> Iterator[FakeVllm]:
    server = FakeVllm()
    yield server
    server.close()


@pytest.fixture
def engine(fake: FakeVllm, tmp_path: Path) -> VllmEngine:
    """It has announced version 1, which nobody has asked for yet."""
    engine = VllmEngine(fake.url, "base", [3, 4], EngineConfig(kind="vllm"))
    engine.announce_on_demand(1, lambda _: adapter(tmp_path, OLD))
    return engine


def test_what_is_pinned_arrives_at_once_and_stays_whatever_comes(
    fake: FakeVllm, engine: VllmEngine, tmp_path: Path
) -> None:
    pinned = engine.pin()
    assert list(fake.adapters.values()) == [OLD]
    engine.announce_on_demand(2, lambda _: adapter(tmp_path, NEW))
    assert pinned.generate([ASKED], 0.9, 0)[0].logprobs[0] == pytest.approx(logprob(OLD, 5))
    assert list(fake.adapters.values()) == [OLD]  # asked by who is pinned, the new one is not even exported
    assert engine.generate([ASKED], 0.9, 0)[0].logprobs[0] == pytest.approx(logprob(NEW, 5))
    assert pinned.generate([ASKED], 0.9, 0)[0].logprobs[0] == pytest.approx(logprob(OLD, 5))
    assert (pinned.policy_version, engine.policy_version) == (1, 2)
    assert sorted(fake.adapters.values()) == [OLD, NEW]
    assert {folder.name for folder in engine.folders} == {OLD, NEW}
    pinned.let_go()
    assert list(fake.adapters.values()) == [NEW]
    assert engine.swaps == 2


def test_a_pin_that_is_forgotten_holds_nothing(fake: FakeVllm, engine: VllmEngine, tmp_path: Path) -> None:
    engine.pin()
    engine.announce(2, *adapter(tmp_path, NEW))
    assert list(fake.adapters.values()) == [NEW]


def test_a_server_that_breaks_spoils_what_is_pinned_and_is_mended_by_the_next_call(
    fake: FakeVllm, tmp_path: Path
) -> None:
    engine = VllmEngine(fake.url, "base", [3, 4], EngineConfig(kind="vllm"), restart=lambda: fake.url)
    engine.announce(1, *adapter(tmp_path, OLD))
    pinned = engine.pin()
    fake.adapters.clear()
    for _ in range(2):
        with pytest.raises(PolicyError, match="does not know the model"):
            pinned.generate([ASKED], 0.9, 0)
    assert "does not know the model" in pinned.spoiled
    assert engine.restarts == 0
    assert engine.generate([ASKED], 0.9, 0)[0].finished
    assert engine.restarts == 1
    pinned.let_go()
    assert list(fake.adapters.values()) == [OLD]


def _player(
    turns: int, done: Callable[[int], None] = lambda turn: None
) -> Callable[[Engine, Progress], list[Trajectory]]:
    """Asks ``turns`` times and says so; what came back is in ``detail``."""

    def play(engine: Engine, progress: Progress) -> list[Trajectory]:
        played = []
        for turn in range(turns):
            (completion,) = engine.generate([Request("a", [1, 2], 4)], 0.9, turn)
            played.append(
                Trajectory(str(turn), "t", "g", engine.policy_version, 1, 1, 0, "completed", (), detail=str(completion))
            )
            progress(1)
            done(turn)
        return played

    return play


def test_a_batch_is_played_in_a_thread_and_taken_with_its_progress(fake: FakeVllm, engine: VllmEngine) -> None:
    shown: list[int] = []
    ahead = Ahead(engine.pin(), _player(3))
    ahead.begin()
    assert [t.policy_version for t in ahead.take(shown.append)] == [1, 1, 1]
    assert sum(shown) == 3
    assert ahead.spoiled == ""


def test_what_playing_raises_is_raised_to_who_takes_it(fake: FakeVllm, engine: VllmEngine, tmp_path: Path) -> None:
    def fails(turn: int) -> None:
        raise ZeroDivisionError(turn)

    ahead = Ahead(engine.pin(), _player(3, fails))
    ahead.begin()
    with pytest.raises(ZeroDivisionError):
        ahead.take(lambda _: None)
    engine.announce(2, *adapter(tmp_path, NEW))
    assert list(fake.adapters.values()) == [NEW]


def test_recalled_it_leaves_no_request_thread_or_version(fake: FakeVllm, engine: VllmEngine, tmp_path: Path) -> None:
    asked, never = threading.Event(), threading.Event()

    def silent(body: Body) -> tuple[int, bytes]:
        asked.set()
        never.wait(PATIENCE)
        return fake.honest(body)

    ahead = Ahead(engine.pin(), _player(3))
    fake.reply = silent
    ahead.begin()
    assert asked.wait(PATIENCE)
    ahead.recall()
    assert not any(thread.name == "coevolve-ahead" for thread in threading.enumerate())
    assert not engine._flights
    assert ahead.spoiled
    ahead.recall()
    never.set()
    fake.reply = fake.honest
    engine.announce(2, *adapter(tmp_path, NEW))
    assert list(fake.adapters.values()) == [NEW]


def test_recalled_before_it_began_it_holds_nothing(fake: FakeVllm, engine: VllmEngine, tmp_path: Path) -> None:
    ahead = Ahead(engine.pin(), _player(3))
    ahead.recall()
    engine.announce(2, *adapter(tmp_path, NEW))
    assert list(fake.adapters.values()) == [NEW]


def test_an_episode_released_before_its_request_flew_is_aborted(
    fake: FakeVllm, engine: VllmEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned, fly = engine.pin(), engine._fly

    def late(*given: object) -> object:
        pinned.recall()
        return fly(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(engine, "_fly", late)
    asked = len(fake.requests)
    assert [c.ids for c in pinned.generate([ASKED], 0.9, 0)] == [()]
    assert len(fake.requests) == asked
