"""Pretrained policies from a folder: whole or with an adapter, saved and loaded bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from coevolve_lab.config import PolicyConfig
from coevolve_lab.errors import PolicyError
from coevolve_lab.policy.policy import build_policy, trainable_weights
from tests.policy.small_models import save_model


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: save_model(kind, tmp_path_factory.mktemp("models") / kind) for kind in ("llama", "qwen3")}


def _config(folder: Path, **more: Any) -> PolicyConfig:
    return PolicyConfig(**{"model": str(folder), "dtype": "float32", "device": "cpu", **more})


@pytest.mark.parametrize("kind", ["llama", "qwen3"])
@pytest.mark.parametrize("lora", [None, {"rank": 4, "alpha": 8}], ids=["whole", "lora"])
def test_a_checkpoint_is_the_policy(folders: dict[str, Path], tmp_path: Path, kind: str, lora: Any) -> None:
    policy = build_policy(_config(folders[kind], lora=lora))
    with torch.no_grad():
        for weight in trainable_weights(policy.model).values():
            weight.add_(0.1 * torch.randn_like(weight))
    assert (policy.advance(), policy.engine.policy_version) == (1, 1)
    policy.save(tmp_path)
    other = build_policy(_config(folders[kind], lora=lora))
    other.load(tmp_path)
    assert other.version == other.engine.policy_version == 1
    mine, theirs = trainable_weights(policy.model), trainable_weights(other.model)
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    ids = torch.tensor([policy.chat.prompt("copy ant to bee", [])])
    assert torch.equal(policy.model(ids).logits, other.model(ids).logits)


def test_only_the_adapter_is_trained_and_it_begins_without_effect(folders: dict[str, Path]) -> None:
    whole = build_policy(_config(folders["qwen3"]))
    adapted = build_policy(_config(folders["qwen3"], lora={"rank": 4, "alpha": 8}))
    twin = build_policy(_config(folders["qwen3"], lora={"rank": 4, "alpha": 8}))
    assert all("lora_" in name for name in trainable_weights(adapted.model))
    assert all("lora_" not in name for name in trainable_weights(whole.model))
    ids = torch.tensor([whole.chat.prompt("show ant", [])])
    assert torch.allclose(whole.model(ids).logits, adapted.model(ids).logits, atol=1e-6)
    mine, theirs = trainable_weights(adapted.model), trainable_weights(twin.model)
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)  # a run can be repeated


@pytest.mark.parametrize("lora", [None, {"rank": 4, "alpha": 8}], ids=["whole", "lora"])
def test_recomputation_changes_memory_and_nothing_else(folders: dict[str, Path], lora: Any) -> None:
    def gradients(recompute: bool) -> tuple[int, dict[str, torch.Tensor]]:
        """Tensors that the forward pass kept, and what training would be done with."""
        policy = build_policy(_config(folders["qwen3"], lora=lora, recompute=recompute))
        kept = []
        policy.model.train()
        with torch.autograd.graph.saved_tensors_hooks(
            lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor
        ):
            loss = policy.model(torch.tensor([list(range(5, 60))]), use_cache=False).logits.logsumexp(-1).sum()
        loss.backward()
        return len(kept), {n: p.grad for n, p in policy.model.named_parameters() if p.grad is not None}

    (many, plain), (few, recomputed) = gradients(False), gradients(True)
    assert few < many / 3
    assert plain.keys() == recomputed.keys()
    assert all(torch.equal(plain[name], recomputed[name]) for name in plain)


def test_a_checkpoint_of_another_model_is_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    whole = build_policy(_config(folders["llama"]))
    whole.save(tmp_path / "whole")
    adapted = build_policy(_config(folders["llama"], lora={"rank": 4, "alpha": 8}))
    with pytest.raises(PolicyError, match="another model"):
        adapted.load(tmp_path / "whole")
    with pytest.raises(PolicyError, match="no usable policy checkpoint"):
        whole.load(tmp_path / "nothing")
    (tmp_path / "whole" / "policy.safetensors").write_bytes(b"cut short")
    with pytest.raises(PolicyError, match="no usable policy checkpoint"):
        whole.load(tmp_path / "whole")


def test_models_that_cannot_be_loaded_say_what_to_do(tmp_path: Path) -> None:
    for name in (str(tmp_path), "no-such-owner/no-such-model"):
        with pytest.raises(PolicyError, match=r"policy\.model"):
            build_policy(_config(Path(name)))
