from __future__ import annotations

import math

import pytest
import torch

from coevolve_lab.training.correction import importance_weights

OWNER = torch.tensor([7, 2, 7, 2, 2])
TRAINER = torch.tensor([-1.0, -2.0, -0.5, -1.0, -3.0], dtype=torch.float64)
GAPS = torch.tensor([0.5, -0.25, -0.25, 1.0, -1.25], dtype=torch.float64)


def test_a_token_counts_the_quotient_of_its_probabilities_up_to_the_cap() -> None:
    weights, capped = importance_weights(TRAINER, TRAINER - GAPS, OWNER, "token", 2.0)
    assert weights.tolist() == pytest.approx([math.exp(0.5), math.exp(-0.25), math.exp(-0.25), 2.0, math.exp(-1.25)])
    assert capped.tolist() == [False, False, False, True, False]


def test_a_sequence_counts_the_product_of_its_own_tokens_in_any_order() -> None:
    weights, capped = importance_weights(TRAINER, TRAINER - GAPS, OWNER, "sequence", 1.2)
    assert weights.tolist() == pytest.approx([1.2, math.exp(-0.5), 1.2, math.exp(-0.5), math.exp(-0.5)])
    assert capped.tolist() == [True, False, True, False, False]


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_the_weights_are_constants_and_never_overflow(level: str) -> None:
    logp = TRAINER.clone().requires_grad_()
    weights, capped = importance_weights(logp, TRAINER - 1e4, OWNER, level, 2.0)
    assert not weights.requires_grad
    assert weights.tolist() == pytest.approx([2.0] * 5)
    assert bool(capped.all())
    none = torch.zeros(0)
    assert importance_weights(none, none, none.long(), level, 2.0)[0].tolist() == []


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_it_puts_an_average_over_the_samplers_draws_right(level: str) -> None:
    """A policy over three tokens, sampled twice a trajectory from another one: every draw there is, by its chance."""
    policy, sampler = torch.tensor([0.5, 0.3, 0.2]).log(), torch.tensor([0.4, 0.3, 0.3]).log()
    draws = torch.cartesian_prod(torch.arange(3), torch.arange(3)).flatten()
    owner = torch.arange(9).repeat_interleave(2)
    weights, capped = importance_weights(policy[draws], sampler[draws], owner, level, 2.0)
    assert not capped.any()
    chance = sampler[draws].view(9, 2).sum(-1).exp()
    value = (draws == 2).float().view(9, 2)
    assert float((chance * (weights.view(9, 2) * value).sum(-1)).sum()) == pytest.approx(2 * 0.2, abs=1e-6)
    assert float((chance * value.sum(-1)).sum()) == pytest.approx(2 * 0.3, abs=1e-6)


def test_another_level_is_an_error() -> None:
    with pytest.raises(ValueError, match="'token' or per 'sequence'"):
        importance_weights(TRAINER, TRAINER, OWNER, "batch", 2.0)
