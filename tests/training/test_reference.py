from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model

from coevolve_lab.training.reference import Reference

IDS = torch.tensor([[5, 6, 7, 8]])


@pytest.mark.parametrize("lora", [False, True])
@torch.no_grad()
def test_it_answers_as_the_model_did_before_training(make_model: Callable[..., Any], lora: bool) -> None:
    base = make_model()
    expected = base(IDS).logits
    model = copy.deepcopy(base)
    if lora:  # initialised at random, as if trained, and with a dropout that the reference must not have
        config = LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False, lora_dropout=0.5)
        model = get_peft_model(model, config)
    reference = Reference(model.train())
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.mul_(1.5)
    with reference.model() as frozen:
        assert torch.equal(frozen(IDS).logits, expected)
        assert lora or not any(parameter.requires_grad for parameter in frozen.parameters())
    assert model.training
    assert not torch.allclose(model(IDS).logits, expected)


def test_an_error_inside_leaves_the_adapter_on(make_model: Callable[..., Any]) -> None:
    model = get_peft_model(make_model(), LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False)).train()
    adapted = model(IDS).logits
    with pytest.raises(KeyboardInterrupt), Reference(model).model():
        raise KeyboardInterrupt
    assert model.training
    assert torch.equal(model(IDS).logits, adapted)
