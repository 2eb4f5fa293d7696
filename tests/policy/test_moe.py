"""A mixture of experts (Qwen3-30B-A3B's architecture) with adapters on its attention: packed rows, and whole rounds."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, Qwen3MoeConfig, Qwen3MoeForCausalLM

from coevolve_lab import CoEvolve
from coevolve_lab.config import PolicyConfig, load_config
from coevolve_lab.policy.adapters import save_adapter
from coevolve_lab.policy.policy import build_policy, trainable_weights
from coevolve_lab.training.packing import check_packing
from tests.loop_world import CONFIG
from tests.policy.small_models import save_model

ATTENTION = {"rank": 4, "alpha": 8, "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj"]}
SMALL: dict[str, Any] = {
    "rollout": {"tasks_per_step": 2, "group_size": 2, "max_action_tokens": 8, "max_response_tokens": 16},
    "training": {"steps_per_round": 1, "kl_coef": 1e-3},
    "evolution": {"initial_tasks": 4, "contexts_per_round": 2},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight experts of which two answer each token."""
    made = save_model("qwen3", tmp_path_factory.mktemp("moe") / "model")
    dense = AutoConfig.from_pretrained(made)
    torch.manual_seed(0)
    Qwen3MoeForCausalLM(
        Qwen3MoeConfig(
            vocab_size=dense.vocab_size, hidden_size=32, intermediate_size=64, moe_intermediate_size=16, num_experts=8,
            num_experts_per_tok=2, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
            max_position_embeddings=4096, eos_token_id=dense.eos_token_id, pad_token_id=dense.pad_token_id,
            bos_token_id=None, tie_word_embeddings=False, norm_topk_prob=True,
        )
    ).save_pretrained(made)  # fmt: skip
    return made


def _policy(folder: Path, **policy: Any) -> dict[str, Any]:
    return {"model": str(folder), "dtype": "float32", "device": "cpu", "lora": ATTENTION, **policy}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_packed_rows_are_scored_as_single_sequences(folder: Path, dtype: str) -> None:
    """Which experts a token is sent to does not depend on its neighbours in the row."""
    check_packing(build_policy(PolicyConfig(**_policy(folder, dtype=dtype))).model)


def test_the_attention_alone_is_adapted_and_a_server_could_read_it(folder: Path, tmp_path: Path) -> None:
    policy = build_policy(PolicyConfig(**_policy(folder)))
    names = load_file(save_adapter(policy.model, tmp_path, 0) / "adapter_model.safetensors")
    assert len(names) == len(trainable_weights(policy.model)) == 2 * 2 * len(ATTENTION["target_modules"])
    assert all(".self_attn." in name and "experts" not in name for name in names)


def test_whole_rounds_train_the_adapter_and_nothing_else(folder: Path, tmp_path: Path) -> None:
    config = load_config({**CONFIG, "policy": _policy(folder)}, **SMALL)
    run = CoEvolve(config, tmp_path / "run", progress=False)
    run.seed_tasks()
    before = {name: p.detach().clone() for name, p in run._ready().policy.model.named_parameters()}
    for _ in range(2):
        batch = run.rollout()
        praised = [dataclasses.replace(t, score=float(k % 2)) for k, t in enumerate(batch)]
        assert run.train(praised).gradient_norm > 0
        run.find_signals(praised)
        run.round()
    changed = {n for n, p in run._ready().policy.model.named_parameters() if not torch.equal(before[n], p)}
    assert changed == set(trainable_weights(run._ready().policy.model))
    assert run.metrics()["kl"].to_list()[1] > 0  # the reference is the model with its adapter switched off
