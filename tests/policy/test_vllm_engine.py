"""The engine's own logic against a fake server; against a real one: tests/vllm/test_engine.py."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coevolve_lab.config import EngineConfig
from coevolve_lab.errors import BackgroundError, PolicyError
from coevolve_lab.policy.engine import Completion, Request
from coevolve_lab.policy.proof import Proof, check_proof
from coevolve_lab.policy.vllm_client import ServerBrokeError, read_completion, read_prompt_logprobs
from coevolve_lab.policy.vllm_engine import VllmEngine, request_seed
from coevolve_lab.policy.vllm_versions import fresh_name
from tests.policy.fake_vllm import Body, FakeVllm, logprob

IDS = (7, 8, 9, 10)
ASKED = Request("a", [1, 2], 4)


@pytest.fixture
def fake() -> Iterator[FakeVllm]:
    server = FakeVllm()
    yield server
    server.close()


def _engine(fake: FakeVllm, restart: Any = None, **config: Any) -> VllmEngine:
    return VllmEngine(fake.url, "base", [3, 4], EngineConfig(kind="vllm", **config), restart)


def adapter(parent: Path, name: str) -> tuple[Path, Proof]:
    """An adapter's folder, and the trainer's side of the proof that the fake server will agree with."""
    folder = parent / name
    folder.mkdir(exist_ok=True)
    (folder / "adapter_config.json").write_text("{}")
    said = [logprob(name, token) for token in range(20)]
    return folder, Proof(IDS, 1, tuple(said[token] for token in IDS[1:]), tuple(said))


# ---- replies


def _choice(**changes: Any) -> bytes:
    whole = {
        "prompt_token_ids": [1, 2],
        "token_ids": [5, 3],
        "logprobs": {"token_logprobs": [-0.5, -1]},
        "finish_reason": "stop",
    }
    return json.dumps({"choices": [{**whole, **changes}]}).encode()


def test_an_action_is_what_was_sampled() -> None:
    assert read_completion(_choice(), ASKED, (3,), 4) == Completion((5, 3), (-0.5, -1.0), True)
    cut = _choice(token_ids=[5, 6], finish_reason="length")
    assert read_completion(cut, ASKED, (3,), 2) == Completion((5, 6), (-0.5, -1.0), False)


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"null",
        b"[" * 100_000,
        b'{"choices": []}',
        b'{"choices": [7]}',
        _choice()[:-20],
        _choice(prompt_token_ids=[1, 3]),  # it sampled after other ids
        _choice(prompt_token_ids=None),
        _choice(token_ids=[]),
        _choice(token_ids=[5, -1]),
        _choice(token_ids=[5, True]),
        _choice(token_ids=["5", "3"]),
        _choice(token_ids=[5, 3, 3]),
        _choice(logprobs=None),
        _choice(logprobs={"token_logprobs": [-0.5, None]}),
        _choice(logprobs={"token_logprobs": [-0.5, float("nan")]}),
        _choice(logprobs={"token_logprobs": [-0.5, "__import__('os')"]}),
        _choice(finish_reason="abort"),
        _choice(finish_reason=None),
        _choice(token_ids=[5] * 5, logprobs={"token_logprobs": [-1.0] * 5}, finish_reason="length"),
    ],
)
def test_a_reply_that_is_not_one_action_is_refused(reply: bytes) -> None:
    with pytest.raises(ServerBrokeError):
        read_completion(reply, ASKED, (3,), 4)


def test_the_prompts_logprobs_are_those_of_its_own_tokens() -> None:
    rows = [None, {"2": {"logprob": -1}, "9": {"logprob": -7}}, {"3": {"logprob": -2.5}}]
    reply = json.dumps({"choices": [{"prompt_logprobs": rows}]}).encode()
    assert read_prompt_logprobs(reply, [1, 2, 3], 1) == [-1.0, -2.5]
    for ids in ([1, 2], [1, 2, 4]):
        with pytest.raises(ServerBrokeError):
            read_prompt_logprobs(reply, ids, 1)


# ---- proofs and names


def _proof(*logprobs: float) -> Proof:
    return Proof(IDS, 1, logprobs, ())


def test_a_gap_that_is_no_number_is_no_proof() -> None:
    broken = Proof(IDS, 1, (math.nan,) * (len(IDS) - 1), (math.nan,) * 40)
    with pytest.raises(BackgroundError, match="did not arrive"):
        check_proof(1, broken, [-1.0] * (len(IDS) - 1), 0.05)


def test_a_proof_tells_the_new_weights_from_others_and_from_the_old() -> None:
    old, new = _proof(-1.0, -1.0, -1.0), _proof(-1.2, -1.0, -0.9)
    check_proof(1, new, [-1.2, -1.0001, -0.9], 0.05, old, 1e-4)
    with pytest.raises(BackgroundError, match="did not arrive"):
        check_proof(1, new, [-1.2, -1.1, -0.9], 0.05, old, 1e-4)
    with pytest.raises(BackgroundError, match="still serves the version before"):
        check_proof(1, new, old.logprobs, 0.5, old, 1e-4)
    check_proof(1, old, old.logprobs, 0.05, old, 0.0)  # an update of nothing


def test_a_change_below_the_servers_rounding_is_not_asked_for() -> None:
    old, new = _proof(-1.0, -1.0, -1.0), _proof(-1.001, -1.0, -1.0)
    check_proof(1, new, [-1.0, -1.0, -1.0], 0.05, old, noise=0.004)


def test_log_probabilities_before_temperature_are_refused(fake: FakeVllm, tmp_path: Path) -> None:
    engine, (folder, proof) = _engine(fake), adapter(tmp_path, "v0001-aaaaaaaa")
    sharper = tuple(value - 0.2 for value in proof.following)
    with pytest.raises(BackgroundError, match="--logprobs-mode processed_logprobs"):
        engine.announce(1, folder, Proof(proof.ids, proof.start, proof.logprobs, sharper))
    with pytest.raises(BackgroundError, match="inf"):  # a token that the trainer's vocabulary lacks
        engine.announce(1, folder, Proof(proof.ids, proof.start, proof.logprobs, proof.following[:5]))
    assert fake.adapters == {}


def test_no_name_is_used_twice() -> None:
    names = {fresh_name(7, Path("x/v0007-1a2b3c4d")) for _ in range(50)}
    assert len(names) == 50
    assert all(name.startswith("policy-v0007-1a2b3c4d-") for name in names)


def test_seeds_differ_by_episode_and_call_and_repeat() -> None:
    seeds = {request_seed(seed, key) for seed in range(10) for key in ("s1-0-0", "s1-0-1", "s1-1-0")}
    assert len(seeds) == 30
    assert request_seed(2**63 - 1, "a") == request_seed(2**63 - 1, "a") < 2**63


# ---- versions


def test_a_version_is_loaded_proven_and_then_sampled_from(fake: FakeVllm, tmp_path: Path) -> None:
    engine = _engine(fake)
    engine.announce(3, *adapter(tmp_path, "v0003-aaaaaaaa"))
    assert engine.policy_version == 3
    asked = [Request("a", [1, 2], 4), Request("b", [1, 2, 5], 2)]
    a, b = engine.generate(asked, 0.9, 11)
    assert (a.ids, a.finished, b.ids, b.finished) == ((5, 6, 3), True, (5, 6), False)
    assert a.logprobs[0] == pytest.approx(logprob("v0003-aaaaaaaa", 5))
    sent = {tuple(body["prompt"]): body for body in fake.requests}
    (name,) = fake.adapters
    for request in asked:
        body = sent[tuple(request.ids)]
        assert body["model"] == body["cache_salt"] == name
        assert (body["temperature"], body["top_p"], body["top_k"]) == (0.9, 1.0, 0)
        assert body["stop_token_ids"] == [3, 4]
        assert body["seed"] == request_seed(11, request.key)


def test_the_version_before_goes_once_no_request_names_it(fake: FakeVllm, tmp_path: Path) -> None:
    engine, going, go_on = _engine(fake), threading.Event(), threading.Event()

    def slow(body: Body) -> tuple[int, bytes]:
        if body["prompt"] == [1, 2]:
            going.set()
            assert go_on.wait(10)
        return fake.honest(body)

    engine.announce(1, *adapter(tmp_path, "v0001-aaaaaaaa"))
    fake.reply = slow
    results: list[Completion] = []
    thread = threading.Thread(target=lambda: results.extend(engine.generate([ASKED], 0.9, 0)))
    thread.start()
    assert going.wait(10)
    engine.announce(2, *adapter(tmp_path, "v0002-bbbbbbbb"))
    assert sorted(fake.adapters.values()) == ["v0001-aaaaaaaa", "v0002-bbbbbbbb"]
    assert {folder.name for folder in engine.folders} == {"v0001-aaaaaaaa", "v0002-bbbbbbbb"}
    go_on.set()
    thread.join()
    assert results[0].logprobs[0] == pytest.approx(logprob("v0001-aaaaaaaa", 5))
    assert list(fake.adapters.values()) == ["v0002-bbbbbbbb"]


def test_only_the_last_of_several_versions_arrives_when_it_is_needed(fake: FakeVllm, tmp_path: Path) -> None:
    engine = _engine(fake)
    for version in (1, 2, 3):
        engine.announce_on_demand(version, lambda _, v=version: adapter(tmp_path, f"v000{v}-aaaaaaa{v}"))  # type: ignore[misc]
        assert engine.policy_version == version
    assert fake.used == []
    engine.generate([ASKED], 0.9, 0)
    assert list(fake.adapters.values()) == ["v0003-aaaaaaa3"]
    assert len(fake.used) == 1


def test_a_version_that_does_not_arrive_stops_and_may_be_tried_again(fake: FakeVllm, tmp_path: Path) -> None:
    engine = _engine(fake)
    engine.announce(1, *adapter(tmp_path, "v0001-aaaaaaaa"))
    folder, _ = adapter(tmp_path, "v0002-bbbbbbbb")
    _, other = adapter(tmp_path, "v0002-cccccccc")
    engine.announce_on_demand(2, lambda _: (folder, other))
    for _ in range(2):
        with pytest.raises(BackgroundError, match="did not arrive"):
            engine.generate([ASKED], 0.9, 0)
        assert list(fake.adapters.values()) == ["v0001-aaaaaaaa"]
    engine.announce_on_demand(2, lambda _: adapter(tmp_path, "v0002-bbbbbbbb"))
    assert engine.generate([ASKED], 0.9, 0)[0].finished


def test_whole_weights_replace_the_base_models(fake: FakeVllm, tmp_path: Path) -> None:
    engine = _engine(fake)
    for version, name in ((1, "v0001-aaaaaaaa"), (2, "v0002-bbbbbbbb")):
        folder, proof = adapter(tmp_path, name)
        (folder / "adapter_config.json").unlink()
        (folder / "model.safetensors").touch()
        engine.announce(version, folder, proof)
        said = engine.generate([ASKED], 0.9, 0)[0]
        assert said.logprobs[0] == pytest.approx(logprob(name, 5))
    sampled = [body for body in fake.requests if body.get("stop_token_ids")]
    assert [body["model"] for body in sampled] == ["base", "base"]
    assert len({body["cache_salt"] for body in sampled}) == 2  # the prefix cache goes by version
    empty = tmp_path / "v0003-cccccccc"
    empty.mkdir()
    with pytest.raises(PolicyError, match="neither an adapter nor"):
        engine.announce(3, empty, proof)
    assert fake.base_weights == "v0002-bbbbbbbb"


def test_adapters_of_an_earlier_engine_are_unloaded_first(fake: FakeVllm, tmp_path: Path) -> None:
    fake.adapters.update({"policy-v0001-aaaaaaaa-000000": "v0001-aaaaaaaa", "somebody-elses": "x"})
    engine = _engine(fake)
    engine.announce(1, *adapter(tmp_path, "v0001-bbbbbbbb"))
    assert sorted(fake.adapters.values()) == ["v0001-bbbbbbbb", "x"]


def test_a_joined_servers_base_model_is_found(fake: FakeVllm, tmp_path: Path) -> None:
    joined = VllmEngine(fake.url, None, [3], EngineConfig(kind="vllm"))
    joined.announce(1, *adapter(tmp_path, "v0001-aaaaaaaa"))
    other = VllmEngine(fake.url, "another", [3], EngineConfig(kind="vllm"))
    with pytest.raises(BackgroundError, match="not 'another'"):
        other.announce(1, *adapter(tmp_path, "v0001-aaaaaaaa"))


# ---- what breaks


def test_a_call_is_made_again_after_one_restart_and_counted(fake: FakeVllm, tmp_path: Path) -> None:
    fresh = FakeVllm()
    urls = iter([fresh.url])

    def restart() -> str:
        for url in urls:
            return url
        raise BackgroundError("no memory")

    engine = _engine(fake, restart)
    engine.announce(1, *adapter(tmp_path, "v0001-aaaaaaaa"))
    fake.reply = lambda body: (500, b"EngineCore encountered an issue")
    assert engine.generate([ASKED], 0.9, 0)[0].finished
    assert engine.restarts == 1
    assert list(fresh.adapters.values()) == ["v0001-aaaaaaaa"]
    fresh.reply = lambda body: (500, b"again")
    with pytest.raises(BackgroundError, match="could not be started again: no memory"):
        engine.generate([ASKED], 0.9, 0)
    fresh.close()


def test_a_server_that_stays_broken_is_a_policy_error(fake: FakeVllm, tmp_path: Path) -> None:
    engine = _engine(fake, restart=lambda: fake.url)
    engine.announce(1, *adapter(tmp_path, "v0001-aaaaaaaa"))
    fake.reply = lambda body: (500, b"no") if body.get("stop_token_ids") else fake.honest(body)
    with pytest.raises(PolicyError, match="failed"):
        engine.generate([ASKED], 0.9, 0)
    assert engine.restarts == 1


def test_a_joined_server_that_is_gone_stops_the_run(tmp_path: Path) -> None:
    """Nobody here can start it again, and going on would roll out nothing and train on it."""
    fake = FakeVllm()
    engine = _engine(fake)
    engine.announce(1, *adapter(tmp_path, "v0001-aaaaaaaa"))
    fake.close()
    with pytest.raises(BackgroundError, match="start it again"):
        engine.generate([ASKED], 0.9, 0)


def test_a_server_that_never_takes_a_version_stops_the_run(fake: FakeVllm, tmp_path: Path) -> None:
    engine = _engine(fake, restart=lambda: fake.url)
    fake.reply = lambda body: (500, b"no") if "prompt_logprobs" in body else fake.honest(body)
    engine.announce_on_demand(1, lambda _: adapter(tmp_path, "v0001-aaaaaaaa"))
    for restarts in (1, 2):
        with pytest.raises(BackgroundError, match="once started again"):
            engine.generate([ASKED], 0.9, 0)
        assert engine.restarts == restarts
    assert fake.adapters == {}


def test_an_adapter_that_somebody_unloaded_is_loaded_again(fake: FakeVllm, tmp_path: Path) -> None:
    engine = _engine(fake)
    engine.announce(1, *adapter(tmp_path, "v0001-aaaaaaaa"))
    fake.adapters.clear()
    assert engine.generate([ASKED], 0.9, 0)[0].finished
    assert len(set(fake.used)) == 2
    assert engine.restarts == 1


def test_a_straggler_is_given_up_and_counted_and_the_others_stand(fake: FakeVllm, tmp_path: Path) -> None:
    engine, never = _engine(fake, request_seconds=1.0), threading.Event()
    engine.announce(1, *adapter(tmp_path, "v0001-aaaaaaaa"))

    def straggling(body: Body) -> tuple[int, bytes]:
        if body["prompt"] == [9]:
            never.wait(20)
        return fake.honest(body)

    fake.reply = straggling
    with pytest.warns(UserWarning, match=r"engine\.request_seconds"):
        late, fine = engine.generate([Request("late", [9], 4), ASKED], 0.9, 0)
    never.set()
    assert late == Completion((), (), False, "not answered in 1.0 s")
    assert fine.finished
    assert engine.missed == 1


def test_a_released_episode_comes_back_empty(fake: FakeVllm, tmp_path: Path) -> None:
    engine, never = _engine(fake), threading.Event()
    engine.announce(1, *adapter(tmp_path, "v0001-aaaaaaaa"))

    def releasing(body: Body) -> tuple[int, bytes]:
        if body["prompt"] == [9]:
            engine.release(["gone"])
            never.wait(20)
        return fake.honest(body)

    fake.reply = releasing
    gone, fine = engine.generate([Request("gone", [9], 4), ASKED], 0.9, 0)
    never.set()
    assert gone == Completion((), (), False)
    assert fine.finished


def test_a_conversation_without_room_is_cut_and_asked_of_nobody(fake: FakeVllm, tmp_path: Path) -> None:
    engine = _engine(fake)
    engine.announce(1, *adapter(tmp_path, "v0001-aaaaaaaa"))
    before = len(fake.requests)
    full, narrow, none = engine.generate(
        [Request("a", [1] * 100, 4), Request("b", [1] * 98, 4), Request("c", [1], 0)], 0.9, 0
    )
    assert full == none == Completion((), (), False)
    assert len(narrow.ids) == 2
    assert len(fake.requests) == before + 1


def test_a_reply_without_an_end_is_not_read_to_the_end(fake: FakeVllm, tmp_path: Path) -> None:
    engine = _engine(fake, restart=lambda: fake.url)
    engine.announce(1, *adapter(tmp_path, "v0001-aaaaaaaa"))
    fake.reply = lambda body: (200, b" " * (3 << 20)) if body.get("stop_token_ids") else fake.honest(body)
    with pytest.raises(PolicyError, match="longer than"):
        engine.generate([ASKED], 0.9, 0)


# ---- sleep


def test_the_server_sleeps_once_all_episodes_are_over(fake: FakeVllm, tmp_path: Path) -> None:
    engine = _engine(fake, sleep=True)
    engine.announce(1, *adapter(tmp_path, "v0001-aaaaaaaa"))
    engine.generate([ASKED, Request("b", [2], 4)], 0.9, 0)
    engine.release(["a"])
    assert not fake.asleep
    engine.release(["b"])
    assert fake.asleep
    assert engine.generate([ASKED], 0.9, 0)[0].finished
    assert not fake.asleep


def test_a_server_that_cannot_sleep_says_what_to_change(fake: FakeVllm, tmp_path: Path) -> None:
    fake.sleeps = False
    engine = _engine(fake, sleep=True)
    engine.announce(1, *adapter(tmp_path, "v0001-aaaaaaaa"))
    engine.generate([ASKED], 0.9, 0)
    with pytest.raises(PolicyError, match=r"engine\.sleep needs a GPU"):
        engine.release(["a"])
