"""Weights written for a server: complete, named by what they are, and the same model when read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from coevolve_lab.config import EngineConfig, PolicyConfig, TinyModelConfig
from coevolve_lab.errors import ConfigError, PolicyError
from coevolve_lab.policy.adapters import keep_only, save_adapter, save_weights, save_whole
from coevolve_lab.policy.engine import Request
from coevolve_lab.policy.policy import Policy, assemble, build_policy, served_model, trainable_weights
from coevolve_lab.policy.proof import proof_ids, prove
from coevolve_lab.policy.tiny import TinyChat, build_model, train_tokenizer
from coevolve_lab.policy.vllm_engine import VllmEngine
from tests.policy.fake_vllm import FakeVllm
from tests.policy.small_models import CORPUS, save_model


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model("qwen3", tmp_path_factory.mktemp("models") / "qwen3")


def _policy(base: Path, lora: bool = True) -> Policy:
    shape = {"rank": 4, "alpha": 8} if lora else None
    return build_policy(PolicyConfig(model=str(base), dtype="float32", device="cpu", lora=shape))


def _tiny() -> Policy:
    tokenizer = train_tokenizer(CORPUS, 350)
    return assemble(
        build_model(TinyModelConfig(hidden=32, heads=2), tokenizer.get_vocab_size(), 0), TinyChat(tokenizer)
    )


def _change(policy: Policy) -> None:
    with torch.no_grad():
        for weight in trainable_weights(policy.model).values():
            weight.add_(0.1 * torch.randn_like(weight))


def test_an_adapter_read_back_is_the_policy(base: Path, tmp_path: Path) -> None:
    policy = _policy(base)
    _change(policy)
    folder = save_weights(policy.model, policy.chat, tmp_path, 7)
    assert folder.name.startswith("v0007-")
    read = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32), folder)
    ids, start = proof_ids(policy.chat)
    assert prove(read, ids, start).logprobs == pytest.approx(prove(policy.model, ids, start).logprobs, abs=1e-6)


def test_a_whole_model_read_back_is_the_policy_with_its_tokenizer(base: Path, tmp_path: Path) -> None:
    for number, policy in enumerate((_policy(base, lora=False), _tiny())):
        _change(policy)
        folder = save_weights(policy.model, policy.chat, tmp_path, number)
        read = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        ids, start = proof_ids(policy.chat)
        assert prove(read, ids, start) == prove(policy.model, ids, start)
        decoded = AutoTokenizer.from_pretrained(folder).decode(ids[start:], skip_special_tokens=True)
        assert decoded.startswith("Proof of arrival")


def test_folders_are_named_by_their_weights(base: Path, tmp_path: Path) -> None:
    policy = _policy(base)
    first = save_adapter(policy.model, tmp_path, 1)
    written = (first / "adapter_model.safetensors").stat().st_mtime_ns
    assert save_adapter(policy.model, tmp_path, 1) == first
    assert (first / "adapter_model.safetensors").stat().st_mtime_ns == written
    _change(policy)
    second = save_adapter(policy.model, tmp_path, 1)
    assert second != first
    assert sorted(tmp_path.iterdir()) == sorted([first, second])  # and nothing half made
    assert not any(file.stat().st_mode & 0o222 for file in first.iterdir())
    keep_only(tmp_path, [second])
    assert list(tmp_path.iterdir()) == [second]


def test_what_is_interrupted_leaves_nothing(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = _policy(base)

    def half(folder: Path, **_: Any) -> None:
        (folder / "adapter_config.json").write_text("{}")
        raise KeyboardInterrupt

    monkeypatch.setattr(policy.model, "save_pretrained", half)
    with pytest.raises(KeyboardInterrupt):
        save_adapter(policy.model, tmp_path, 1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("more", [{"modules_to_save": ["lm_head"]}, {"bias": "all"}, {"use_dora": True}])
def test_what_a_server_would_leave_out_is_refused(tmp_path: Path, more: dict[str, Any]) -> None:
    config = LoraConfig(task_type="CAUSAL_LM", r=2, target_modules=["q_proj"], **more)
    model = build_model(TinyModelConfig(hidden=32, heads=2), 64, 0)
    model.model.layers[0].self_attn.q_proj.bias = torch.nn.Parameter(torch.zeros(32))
    with pytest.raises(PolicyError, match="low-rank matrices only"):
        save_adapter(get_peft_model(model, config), tmp_path, 1)
    assert list(tmp_path.iterdir()) == []


def test_a_proof_is_the_models_own_and_leaves_it_in_its_mode(base: Path) -> None:
    policy = _policy(base)
    ids, start = proof_ids(policy.chat)
    assert 10 < start < len(ids) - 10
    policy.model.train()
    proof = prove(policy.model, ids, start)
    assert policy.model.training
    with torch.no_grad():
        logp = policy.model.eval()(torch.tensor([ids])).logits[0].log_softmax(-1)
    assert proof.logprobs == pytest.approx([logp[i - 1, ids[i]].item() for i in range(start, len(ids))], abs=1e-6)


def test_a_policy_hands_each_version_to_its_server_and_keeps_what_is_served(base: Path, tmp_path: Path) -> None:
    fake, policy = FakeVllm(), _policy(base)
    engine = VllmEngine(fake.url, "base", policy.chat.end_ids, EngineConfig(kind="vllm", proof_tolerance=100))
    policy.sample_by(engine, tmp_path / "versions")
    for version in (1, 2, 3):
        assert policy.advance() == engine.policy_version == version
        _change(policy)
        assert engine.generate([Request("a", [5, 6], 4)], 0.9, 0)[0].finished
        (served,) = fake.adapters.values()
        assert served.startswith(f"v{version:04d}-")
    policy.save(tmp_path / "checkpoint")
    other = _policy(base)
    other.sample_by(VllmEngine(fake.url, "base", policy.chat.end_ids, EngineConfig(kind="vllm")), tmp_path / "others")
    other.load(tmp_path / "checkpoint")
    assert other.engine.policy_version == 3
    assert len(list((tmp_path / "versions").iterdir())) <= 2
    fake.close()


def test_a_server_starts_from_the_models_own_folder(base: Path, tmp_path: Path) -> None:
    config = PolicyConfig(model=str(base), dtype="float32", device="cpu")
    assert served_model(config, _policy(base), tmp_path) == base.resolve()
    assert list(tmp_path.iterdir()) == []
    tiny = _tiny()
    made = served_model(PolicyConfig(model="tiny"), tiny, tmp_path)
    assert made == tmp_path / "base"
    assert AutoModelForCausalLM.from_pretrained(made).config.vocab_size == tiny.model.config.vocab_size
    assert served_model(PolicyConfig(model="tiny"), tiny, tmp_path) == made
    with pytest.raises(ConfigError, match="gguf_file"):
        served_model(PolicyConfig(model=str(base), gguf_file="x.gguf"), tiny, tmp_path)


def test_a_model_without_a_tokenizer_cannot_be_served(tmp_path: Path) -> None:
    policy = _tiny()
    with pytest.raises(PolicyError, match="tokenizer"):
        save_whole(policy.model, object(), tmp_path, 0)  # type: ignore[arg-type]
