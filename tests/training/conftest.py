"""Small real models, and trajectories sampled from nothing but a seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen3Config

from coevolve_lab.records import Step, Trajectory

VOCABULARY = 97


@pytest.fixture
def make_model() -> Callable[..., Any]:
    """make_model("qwen3" | "llama", seed, attention): two layers, random weights large enough to matter."""

    def make(kind: str = "qwen3", seed: int = 0, attention: str = "sdpa") -> Any:
        shape = {
            "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
            "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "initializer_range": 0.2,
            "tie_word_embeddings": kind == "qwen3", "max_position_embeddings": 256,
        }  # fmt: skip
        torch.manual_seed(seed)
        config = Qwen3Config(**shape) if kind == "qwen3" else LlamaConfig(**shape)
        return AutoModelForCausalLM.from_config(config, attn_implementation=attention).float()

    return make


@pytest.fixture
def plain_logprobs() -> Callable[..., torch.Tensor]:
    """Log-probabilities of a trajectory's sampled tokens from one ordinary forward pass of the unpacked sequence."""

    def score(model: Any, trajectory: Trajectory, temperature: float) -> torch.Tensor:
        ids = list(trajectory.prompt_ids)
        sampled = []
        for step in trajectory.steps:
            sampled += range(len(ids), len(ids) + len(step.token_ids))
            ids += [*step.token_ids, *step.reply_ids]
        logits = model(input_ids=torch.tensor([ids])).logits[0].float() / temperature
        at = torch.tensor(sampled, dtype=torch.long)
        return logits.log_softmax(-1)[at - 1, torch.tensor(ids)[at]]

    return score


@pytest.fixture
def make_trajectories() -> Callable[..., list[Trajectory]]:
    """make_trajectories(scores per group): K trajectories a group, one prompt a group, common first actions."""

    def make(scores: dict[str, list[float]], seed: int = 0, **changes: Any) -> list[Trajectory]:
        rng = random.Random(seed)
        made = []
        for group, group_scores in scores.items():
            prompt = _ids(rng, 4, 9)
            first = _ids(rng, 2, 5)
            for k, score in enumerate(group_scores):
                actions = [first if rng.random() < 0.6 else _ids(rng, 2, 5), *(_ids(rng, 1, 6) for _ in range(k % 3))]
                steps = tuple(
                    Step(
                        turn=0, action="", observation="", token_ids=ids, reply_ids=_ids(rng, 1, 4),
                        logprobs=tuple(rng.uniform(-6, -3) for _ in ids),
                    )
                    for ids in actions
                )  # fmt: skip
                fields: dict[str, Any] = {
                    "id": f"{group}-{k}", "task_id": f"task-{group}", "group_id": group, "policy_version": 0,
                    "round": 0, "step": 0, "score": score, "status": "completed", "steps": steps,
                    "prompt_ids": prompt, "temperature": 0.9,
                }  # fmt: skip
                made.append(Trajectory(**(fields | changes)))
        return made

    return make


def _ids(rng: random.Random, low: int, high: int) -> tuple[int, ...]:
    return tuple(rng.randrange(VOCABULARY) for _ in range(rng.randint(low, high)))
