from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, MambaConfig, MistralConfig

from coevolve_lab.errors import PolicyError
from coevolve_lab.records import Step, Trajectory
from coevolve_lab.training import packing
from coevolve_lab.training.packing import Sequence1D, check_packing, pack, to_sequence, token_logprobs

SCORES = {"a": [1.0, 0.0, 1.0, 0.0], "b": [0.0, 0.0, 1.0, 0.0], "c": [1.0, 1.0, 0.0, 0.0]}


def _packed(model: Any, trajectories: list[Trajectory], tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    sequences = [to_sequence(t) for t in trajectories]
    total = sum(len(s.sampled) for s in sequences)
    logp, entropy = torch.full((total,), torch.nan), torch.full((total,), torch.nan)
    for batch in pack(sequences, tokens):
        logp[batch.token], entropy[batch.token] = token_logprobs(model, batch, 0.9)
    return logp, entropy


@pytest.mark.parametrize("kind", ["qwen3", "llama"])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("tokens", [1, 40, 10_000])
def test_packed_rows_score_like_single_sequences(
    make_model: Callable[..., Any], make_trajectories: Callable[..., Any], plain_logprobs: Callable[..., torch.Tensor],
    kind: str, attention: str, tokens: int,
) -> None:  # fmt: skip
    model = make_model(kind, attention=attention)
    trajectories = make_trajectories(SCORES)
    with torch.no_grad():
        packed, _ = _packed(model, trajectories, tokens)
        plain = torch.cat([plain_logprobs(model, t, 0.9) for t in trajectories])
    assert packed.shape == plain.shape
    assert float((packed - plain).abs().max()) < 1e-5


def test_gradient_equals_that_of_single_sequences(
    make_model: Callable[..., Any], make_trajectories: Callable[..., Any], plain_logprobs: Callable[..., torch.Tensor]
) -> None:
    model, trajectories = make_model(), make_trajectories(SCORES)
    packed, _ = _packed(model, trajectories, 10_000)
    mine = torch.autograd.grad(packed.mean(), list(model.parameters()))
    plain = torch.cat([plain_logprobs(model, t, 0.9) for t in trajectories])
    theirs = torch.autograd.grad(plain.mean(), list(model.parameters()))
    assert max(float((a - b).abs().max()) for a, b in zip(mine, theirs, strict=True)) < 1e-6


def test_logits_in_slices_give_the_same_numbers_and_gradient(
    make_model: Callable[..., Any], make_trajectories: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, trajectories = make_model(), make_trajectories(SCORES)
    results = []
    for budget in (packing._LOGITS_AT_ONCE, 5 * 97):
        monkeypatch.setattr(packing, "_LOGITS_AT_ONCE", budget)
        logp, entropy = _packed(model, trajectories, 10_000)
        results.append([logp, entropy, *torch.autograd.grad(logp.sum(), list(model.parameters()))])
    for whole, sliced in zip(*results, strict=True):
        assert torch.allclose(whole, sliced, atol=1e-5)


def test_entropy_is_that_of_the_sampling_distribution(
    make_model: Callable[..., Any], make_trajectories: Callable[..., Any]
) -> None:
    model = make_model()
    (trajectory,) = make_trajectories({"a": [1.0]})
    _, entropy = _packed(model, [trajectory], 100)
    sequence = to_sequence(trajectory)
    logits = model(input_ids=torch.tensor([sequence.ids])).logits[0, torch.tensor(sequence.sampled) - 1] / 0.9
    assert torch.allclose(entropy, torch.distributions.Categorical(logits=logits).entropy(), atol=1e-5)
    assert not entropy.requires_grad


def test_a_common_prefix_is_one_path_of_the_trie() -> None:
    prompt = (1, 2, 3)
    sequences = [Sequence1D((*prompt, 4, 5, 6), (3, 4, 5), 3), Sequence1D((*prompt, 4, 5, 7, 8), (3, 4, 5, 6), 3)]
    (batch,) = pack(sequences, 100)
    # 1 2 3 4 5 are common; 6 and 8 end a sequence, so nothing is predicted from them; 7 branches off.
    assert batch.lengths == (6,)
    assert batch.input_ids.tolist() == [[1, 2, 3, 4, 5, 7]]
    assert batch.position_ids.tolist() == [[0, 1, 2, 3, 4, 5]]
    assert batch.source.tolist() == [2, 3, 4, 2, 3, 4, 5]
    assert batch.target.tolist() == [4, 5, 6, 4, 5, 7, 8]
    assert batch.token.tolist() == list(range(7))


def test_branches_do_not_see_each_other() -> None:
    (batch,) = pack([Sequence1D((1, 2, 3, 9), (2, 3), 1), Sequence1D((1, 4, 5, 9), (2, 3), 1)], 100)
    assert batch.input_ids.tolist() == [[1, 2, 3, 4, 5]]
    assert batch.position_ids.tolist() == [[0, 1, 2, 1, 2]]
    assert batch.attention_mask[0, 0].int().tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [1, 0, 0, 1, 0],
        [1, 0, 0, 1, 1],
    ]


def test_every_sampled_token_occurs_once_and_the_budget_holds(make_trajectories: Callable[..., Any]) -> None:
    sequences = [to_sequence(t) for t in make_trajectories({str(i): [0.0] * 6 for i in range(9)})]
    longest = max(len(s.ids) for s in sequences)
    for tokens in (longest, 60, 200):
        batches = pack(sequences, tokens)
        assert sorted(t for b in batches for t in b.token.tolist()) == list(
            range(sum(len(s.sampled) for s in sequences))
        )
        assert all(b.input_ids.numel() <= tokens for b in batches)


def test_what_follows_the_last_action_is_left_out() -> None:
    steps = (
        Step(0, "", "", token_ids=(5, 6), logprobs=(-1.0, -1.0), reply_ids=(7,)),
        Step(0, "", "", token_ids=(8,), logprobs=(-1.0,), reply_ids=(9, 9, 9)),
        Step(0, "", "", token_ids=(), reply_ids=(9,)),
    )
    trajectory = Trajectory("t", "task", "g", 0, 0, 0, 1.0, "completed", steps, prompt_ids=(1, 2))
    assert to_sequence(trajectory) == Sequence1D((1, 2, 5, 6, 7, 8), (2, 3, 5), 2)
    with pytest.raises(PolicyError, match="prompt_ids"):
        to_sequence(dataclasses.replace(trajectory, prompt_ids=()))
    broken = dataclasses.replace(steps[0], logprobs=(-1.0,))
    with pytest.raises(PolicyError, match="2 sampled ids but 1 logprobs"):
        to_sequence(dataclasses.replace(trajectory, steps=(broken,)))
    assert pack([to_sequence(dataclasses.replace(trajectory, steps=()))], 100) == []


def test_models_that_cannot_be_packed_are_refused(make_model: Callable[..., Any]) -> None:
    check_packing(make_model("llama"))
    check_packing(make_model("llama").bfloat16())
    recurrent = AutoModelForCausalLM.from_config(
        MambaConfig(vocab_size=97, hidden_size=32, state_size=4, num_hidden_layers=2)
    )
    with pytest.raises(PolicyError, match="MambaForCausalLM"):
        check_packing(recurrent)


def test_a_model_that_ignores_position_ids_is_found_out(make_model: Callable[..., Any]) -> None:
    model = make_model()
    decoder = model.model
    forward = decoder.forward
    decoder.forward = lambda **inputs: forward(**{k: v for k, v in inputs.items() if k != "position_ids"})
    with pytest.raises(PolicyError, match="differently from single sequences"):
        check_packing(model)


def test_sequences_beyond_a_sliding_window_are_refused() -> None:
    config = MistralConfig(
        vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, sliding_window=16,
    )  # fmt: skip
    model = AutoModelForCausalLM.from_config(config).float()
    check_packing(model)
    fits, longer = (Sequence1D(tuple(range(n)), (n - 1,), n - 1) for n in (17, 18))
    token_logprobs(model, pack([fits], 100)[0], 1.0)
    with pytest.raises(PolicyError, match="sliding window"):
        token_logprobs(model, pack([longer], 100)[0], 1.0)
