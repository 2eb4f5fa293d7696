"""Float32 weights behind rounded ones: small steps add up, and so do gradients."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch

from coevolve_lab.config import TrainingConfig
from coevolve_lab.errors import PolicyError
from coevolve_lab.training.optimizer import Optimizer

START = torch.linspace(0.01, 0.03, 64)
CONFIG = TrainingConfig(learning_rate=1e-6, gradient_clip=float("inf"))


def descended(dtype: torch.dtype, steps: int) -> tuple[torch.Tensor, Optimizer]:
    """Weights and their optimizer after steps on a loss that wants all of them smaller."""
    weights = START.to(dtype).clone().requires_grad_()
    optimizer = Optimizer([weights], CONFIG)
    for _ in range(steps):
        optimizer.zero_grad()
        weights.float().sum().backward()
        optimizer.step()
    return weights.detach(), optimizer


def test_steps_that_are_smaller_than_a_rounded_weight_can_make_add_up() -> None:
    start = START.to(torch.bfloat16)
    first, _ = descended(torch.bfloat16, 1)
    assert torch.equal(first, start)  # 1e-6 is nothing to a bfloat16 of 0.02, whose neighbours are 1e-4 away
    many, _ = descended(torch.bfloat16, 300)
    assert (many.float() - (start.float() - 300e-6)).abs().max() < 0.6e-4  # half the way to a neighbour
    assert (many != start).float().mean() > 0.9


def test_float32_weights_have_no_copies() -> None:
    weights, optimizer = descended(torch.float32, 3)
    plain = START.clone().requires_grad_()
    adamw = torch.optim.AdamW([plain], lr=1e-6, weight_decay=0.0)
    for _ in range(3):
        adamw.zero_grad()
        plain.sum().backward()
        adamw.step()
    assert torch.equal(weights, plain.detach())
    assert optimizer.state_dict()["float32"] == []


def test_gradients_of_rounded_weights_add_up_in_float32() -> None:
    weights = torch.ones(1, dtype=torch.bfloat16, requires_grad=True)
    optimizer = Optimizer([weights], CONFIG)
    for size in (1.0, *[2**-9] * 64):  # each too small to be added to 1 in bfloat16
        (weights * size).sum().backward()
    assert weights.grad is None
    assert optimizer.step() == pytest.approx(1 + 64 * 2**-9)
    optimizer.zero_grad()
    (weights * 2).sum().backward()
    assert optimizer.step() == pytest.approx(2)


def test_it_goes_on_from_its_state_or_from_the_rounded_weights() -> None:
    weights, before = descended(torch.bfloat16, 40)
    state: dict[str, Any] = before.state_dict()
    for kept, whole in ((state, state["float32"][0]), ({**state, "float32": []}, weights.float())):
        after = Optimizer([weights.clone().requires_grad_()], CONFIG)
        after.load_state_dict(kept)
        assert torch.equal(after.state_dict()["float32"][0], whole)
        assert after.updates == 40


def test_a_model_can_get_another_optimizer() -> None:
    weights = START.to(torch.bfloat16).requires_grad_()
    first = Optimizer([weights], CONFIG)
    del first
    gc.collect()
    second = Optimizer([weights], CONFIG)
    weights.float().sum().backward()
    assert second.step() == pytest.approx(8)


def test_a_gradient_that_is_not_finite_changes_nothing() -> None:
    weights = START.clone().requires_grad_()
    optimizer = Optimizer([weights], CONFIG)
    (weights.sum() * float("nan")).backward()
    with pytest.raises(PolicyError, match="the gradient norm is nan: nothing was changed"):
        optimizer.step()
    assert torch.equal(weights, START)
    assert optimizer.updates == 0
