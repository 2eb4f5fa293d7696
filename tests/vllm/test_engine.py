"""The engine against a real vLLM server: the tokens of the torch engine, versions that arrive, nothing stale."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch

from coevolve_lab.config import EngineConfig, PolicyConfig
from coevolve_lab.errors import BackgroundError, PolicyError
from coevolve_lab.policy.adapters import save_adapter
from coevolve_lab.policy.engine import Completion, Request
from coevolve_lab.policy.policy import Policy, build_policy, trainable_weights
from coevolve_lab.policy.proof import proof_ids, prove
from coevolve_lab.policy.torch_engine import TorchEngine
from coevolve_lab.policy.vllm_engine import VllmEngine
from tests.vllm.conftest import Served

pytestmark = pytest.mark.vllm
BASE = "policy-base"
CLOSE = 1e-5  # of float32 log-probabilities between the server and the trainer
TEXTS = ["copy ant to bee", "show cat", "sum it all up please, reset hen", "store red under elk"]


def _engine(url: str, policy: Policy, **config: Any) -> VllmEngine:
    return VllmEngine(url, BASE, policy.chat.end_ids, EngineConfig(kind="vllm", **config))


def _policy(model_folder: Path) -> Policy:
    lora = {"rank": 4, "alpha": 8}
    return build_policy(PolicyConfig(model=str(model_folder), dtype="float32", device="cpu", lora=lora))


@pytest.fixture
def url(server: Served) -> str:
    return server.url


@pytest.fixture
def policy(url: str, model_folder: Path, tmp_path: Path) -> Iterator[Policy]:
    """A LoRA policy that the server samples from, at version 0."""
    policy = _policy(model_folder)
    policy.sample_by(_engine(url, policy, proof_tolerance=CLOSE), tmp_path / "versions")
    yield policy
    assert running(url) == 0


def change(policy: Policy, amount: float = 0.1) -> None:
    """As a training step does."""
    with torch.no_grad():
        for weight in trainable_weights(policy.model).values():
            weight.add_(amount * torch.randn_like(weight))
    policy.advance()


def requests(policy: Policy, max_tokens: int = 12) -> list[Request]:
    return [Request(str(i), policy.chat.prompt(text, []), max_tokens) for i, text in enumerate(TEXTS)]


def trainer_logprobs(policy: Policy, ids: Any, completion: Completion, temperature: float) -> list[float]:
    policy.model.eval()
    with torch.no_grad():
        logits = policy.model(torch.tensor([[*ids, *completion.ids]])).logits[0] / temperature
    return [logits.log_softmax(-1)[len(ids) - 1 + i, t].item() for i, t in enumerate(completion.ids)]


def served(url: str) -> set[str]:
    listed = httpx.get(f"{url}/v1/models", trust_env=False).json()["data"]
    return {model["id"] for model in listed} - {BASE}


def running(url: str) -> float:
    """Requests that the server still works on, or has waiting."""
    for _ in range(200):  # the engine learns of a closed connection a moment later
        text = httpx.get(f"{url}/metrics", trust_env=False).text
        names = ("vllm:num_requests_running{", "vllm:num_requests_waiting{")
        count = sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(names))
        if not count:
            break
        threading.Event().wait(0.05)
    return count


def test_greedy_tokens_are_the_torch_engines(policy: Policy) -> None:
    change(policy)
    here = TorchEngine(policy.model, policy.chat.end_ids, policy.chat.pad_id)
    ours = here.generate(requests(policy, 24), 0.0, 0)
    theirs = policy.engine.generate(requests(policy, 24), 0.0, 0)
    assert [c.ids for c in theirs] == [c.ids for c in ours]
    assert [c.finished for c in theirs] == [c.finished for c in ours]
    for mine, its in zip(ours, theirs, strict=True):
        assert its.logprobs == pytest.approx(mine.logprobs, abs=CLOSE)


def test_every_version_is_sampled_with_its_own_weights_and_cache(policy: Policy, url: str) -> None:
    """The same conversation goes on over versions: no token comes from an adapter or a prefix of before."""
    engine, names, talks = policy.engine, set(), [list(r.ids) for r in requests(policy)]
    assert isinstance(engine, VllmEngine)
    for version in range(3):
        asked = [Request(str(i), ids, 8) for i, ids in enumerate(talks)]
        for seed in (1, 2):
            for request, completion in zip(asked, engine.generate(asked, 0.9, seed), strict=True):
                expected = trainer_logprobs(policy, request.ids, completion, 0.9)
                assert completion.logprobs == pytest.approx(expected, abs=CLOSE)
        assert engine.last_swap is not None
        assert engine.last_swap.version == engine.policy_version == version
        assert served(url) == {engine.last_swap.name}
        names.add(engine.last_swap.name)
        talks = [[*ids, 9, 10, 11] for ids in talks]
        change(policy)
    assert len(names) == 3
    assert len(list(policy.exports.iterdir())) <= 2  # type: ignore[union-attr]


def test_same_seed_same_tokens_and_episodes_of_a_group_draw_apart(policy: Policy) -> None:
    ids = requests(policy)[0].ids
    group = [Request(f"g-{k}", ids, 12) for k in range(4)]

    def sampled(seed: int) -> list[tuple[int, ...]]:
        return [c.ids for c in policy.engine.generate(group, 1.0, seed)]

    assert sampled(1) == sampled(1) != sampled(2)
    assert len(set(sampled(1))) == 4


def test_an_action_ends_at_its_end_token_its_limit_or_the_models_room(policy: Policy, url: str) -> None:
    request = requests(policy)[0]
    said = policy.engine.generate([Request("a", request.ids, 6)], 0.0, 0)[0]
    assert (len(said.ids), said.finished) == (6, False)
    other = VllmEngine(url, BASE, [said.ids[2]], EngineConfig(kind="vllm"))
    policy.sample_by(other, policy.exports)  # type: ignore[arg-type]
    ended = policy.engine.generate([Request("a", request.ids, 6)], 0.0, 0)[0]
    assert ended.finished
    assert ended.ids == said.ids[: said.ids.index(said.ids[2]) + 1]
    full = [5] * 100_000
    none, cut = policy.engine.generate([Request("a", request.ids, 0), Request("b", full, 6)], 0.0, 0)
    assert none == cut == Completion((), (), False)


def test_weights_that_did_not_arrive_are_refused_and_the_old_ones_go_on(
    policy: Policy, url: str, model_folder: Path, tmp_path: Path
) -> None:
    engine = policy.engine
    assert isinstance(engine, VllmEngine)
    before = engine.generate(requests(policy), 0.0, 0)
    good = served(url)
    other = _policy(model_folder)
    change(other)
    wrong = save_adapter(other.model, tmp_path / "wrong", 1)
    with pytest.raises(BackgroundError, match="did not arrive"):
        engine.announce(1, wrong, prove(policy.model, *proof_ids(policy.chat)))
    assert served(url) == good
    assert engine.policy_version == 0
    assert engine.generate(requests(policy), 0.0, 0) == before
    with pytest.raises(PolicyError, match="neither an adapter nor"):
        engine.announce(1, tmp_path / "wrong", prove(policy.model, *proof_ids(policy.chat)))


def test_an_adapter_of_an_earlier_process_is_never_served(policy: Policy, url: str, model_folder: Path) -> None:
    """A resumed run finds the server as the lost one left it: an adapter under a version's name, of other weights."""
    policy.engine.generate(requests(policy), 0.0, 0)
    left = served(url)
    resumed = _policy(model_folder)
    change(resumed)
    resumed.version = 0
    resumed.sample_by(_engine(url, resumed, proof_tolerance=CLOSE), policy.exports)  # type: ignore[arg-type]
    for request, completion in zip(requests(policy), resumed.engine.generate(requests(policy), 1.0, 3), strict=True):
        expected = trainer_logprobs(resumed, request.ids, completion, 1.0)
        assert completion.logprobs == pytest.approx(expected, abs=CLOSE)
    assert len(served(url)) == 1
    assert not served(url) & left


def test_an_adapter_that_vanished_is_brought_back_and_counted(policy: Policy, url: str) -> None:
    engine = policy.engine
    assert isinstance(engine, VllmEngine)
    before = engine.generate(requests(policy), 0.9, 5)
    for name in served(url):
        httpx.post(f"{url}/v1/unload_lora_adapter", json={"lora_name": name}, trust_env=False).raise_for_status()
    assert engine.generate(requests(policy), 0.9, 5) == before
    assert engine.restarts == 1
    assert len(served(url)) == 1


def test_two_hundred_sessions_cancelled_at_random_leave_nothing_behind(policy: Policy, url: str) -> None:
    engine, rng = policy.engine, random.Random(0)
    engine.generate(requests(policy, 1), 0.0, 0)
    ids = requests(policy)[0].ids
    results: list[list[Completion]] = []

    def sessions(first: int) -> None:
        asked = [Request(f"s{i}", [*ids, 5 + i % 200], 200) for i in range(first, first + 50)]
        results.append(engine.generate(asked, 1.0, first))

    threads = [threading.Thread(target=sessions, args=(first,)) for first in range(0, 200, 50)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        engine.release([f"s{rng.randrange(200)}"])
        threading.Event().wait(0.01)
    change(policy)
    engine.generate(requests(policy, 1), 0.0, 0)
    kept = [c for batch in results for c in batch if c.ids]
    assert sum(map(len, results)) == 200
    assert 0 < len(kept) < 200
    assert all(len(c.ids) == 200 or c.finished for c in kept)
    assert running(url) == 0
    assert len(served(url)) == 1


def test_requests_that_miss_their_deadline_are_aborted(policy: Policy, url: str) -> None:
    engine = VllmEngine(url, BASE, [], EngineConfig(kind="vllm", request_seconds=0.2))  # nothing ends an action
    policy.sample_by(engine, policy.exports)  # type: ignore[arg-type]
    with pytest.raises(BackgroundError, match="none of 4 requests"):
        engine.generate(requests(policy, 1500), 1.0, 0)
    assert running(url) == 0


def test_the_served_versions_logprobs_of_any_text(policy: Policy) -> None:
    change(policy)
    assert isinstance(policy.engine, VllmEngine)
    proof = prove(policy.model, requests(policy)[2].ids, 3)
    assert policy.engine.logprobs(proof.ids, proof.start) == pytest.approx(proof.logprobs, abs=CLOSE)


def test_the_server_sleeps_when_no_episode_is_left_and_is_woken(policy: Policy, url: str) -> None:
    """On a CPU vLLM keeps its memory, and only stops its scheduler."""
    engine = _engine(url, policy, sleep=True)
    policy.sample_by(engine, policy.exports)  # type: ignore[arg-type]

    def asleep() -> bool:
        return bool(httpx.get(f"{url}/is_sleeping", trust_env=False).json()["is_sleeping"])

    first = engine.generate(requests(policy), 0.9, 0)
    engine.release(["0", "1", "2"])
    assert not asleep()
    engine.release(["3"])
    assert asleep()
    assert engine.generate(requests(policy), 0.9, 0) == first
    engine.release(["0", "1", "2", "3"])
    change(policy)
    assert asleep()
    engine.generate(requests(policy), 0.9, 0)
    assert not asleep()
    assert engine.last_swap is not None
    assert engine.last_swap.version == policy.version
