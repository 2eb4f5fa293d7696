from __future__ import annotations

import copy
import dataclasses
import math
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model

from coevolve_lab.errors import PolicyError
from coevolve_lab.training import Trainer, group_advantages, grpo_loss
from tests.training.trainers import MIXED, Make, make_trainer, off_by, padded, same, sampled_by, weights_of

FAILED, SOLVED = {"f": [0.0] * 4}, {"s": [1.0] * 4, "t": [1.0] * 4}


@pytest.mark.parametrize("normalize", ["group", "batch"])
@pytest.mark.parametrize("kind", ["qwen3", "llama"])
def test_loss_and_gradient_are_grpo_loss_on_ordinary_forward_passes(
    make_model: Make, make_trajectories: Make, plain_logprobs: Make, normalize: str, kind: str
) -> None:
    model, reference = make_model(kind, seed=2), make_model(kind, seed=2)
    trainer = make_trainer(model, normalize=normalize, kl_coef=0.05, tokens_per_microbatch=60)
    model.load_state_dict(make_model(kind, seed=1).state_dict())
    trajectories = make_trajectories(MIXED | {"c": [1.0, 1.0, 1.0, 0.0]})
    measured = trainer.backward(trajectories)

    logp = [plain_logprobs(model, t, 0.9) for t in trajectories]
    with torch.no_grad():
        ref = [plain_logprobs(reference, t, 0.9) for t in trajectories]
    old = [torch.tensor([p for s in t.steps for p in s.logprobs]) for t in trajectories]
    groups = [t.group_id for t in trajectories]
    advantages = group_advantages([t.score for t in trajectories], groups)
    mask = padded([torch.ones(len(row)) for row in logp])
    loss = grpo_loss(
        padded(logp), padded(old), padded(ref), advantages, mask, groups, kl_coef=0.05, normalize=normalize
    )
    gradient = torch.autograd.grad(loss, list(model.parameters()))

    assert measured["loss"] == pytest.approx(loss.item(), abs=1e-6)
    scale = max(1.0, *(float(g.abs().max()) for g in gradient))
    for parameter, expected in zip(model.parameters(), gradient, strict=True):
        assert torch.allclose(parameter.grad, expected, atol=1e-6 * scale)
    difference = torch.cat([(r - n).detach() for r, n in zip(ref, logp, strict=True)])
    assert measured["kl"] == pytest.approx(float((difference.exp() - difference - 1).mean()), rel=1e-4)
    gap = torch.cat([(n - o).detach() for n, o in zip(logp, old, strict=True)]).abs().mean()
    assert measured["logprob_gap"] == pytest.approx(float(gap), rel=1e-5)


@pytest.mark.parametrize("normalize", ["group", "batch"])
@pytest.mark.parametrize("importance", ["off", "token", "sequence"])
def test_gradient_does_not_depend_on_the_split(
    make_model: Make, make_trajectories: Make, plain_logprobs: Make, normalize: str, importance: str
) -> None:
    trajectories = off_by(0.3, sampled_by(make_model(), plain_logprobs, make_trajectories(MIXED)))
    gradients, measured = [], []
    for tokens in (1, 25, 64, 10_000):
        model = make_model()
        trainer = make_trainer(model, normalize=normalize, tokens_per_microbatch=tokens, importance=importance)
        measured.append(trainer.backward(trajectories))
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    scale = max(1.0, float(gradients[0].abs().max()))
    for other in gradients[1:]:
        assert float((other - gradients[0]).abs().max()) < 1e-6 * scale
    assert all(other == pytest.approx(measured[0], rel=1e-4, abs=1e-6) for other in measured[1:])
    assert 0.2 < measured[0]["logprob_gap"] < measured[0]["gap_largest"] == pytest.approx(1.5, abs=1e-4)


def test_ratio_is_one_at_another_temperature_than_one(
    make_model: Make, make_trajectories: Make, plain_logprobs: Make
) -> None:
    model = make_model()
    trajectories = sampled_by(model, plain_logprobs, make_trajectories(MIXED))
    update = make_trainer(model).step(trajectories, step=3, round=1, policy_version=7)
    assert update.logprob_gap < 1e-5
    assert update.kl < 1e-9
    assert update.clip_fraction == 0.0
    assert (update.step, update.round, update.policy_version) == (3, 1, 7)
    with pytest.raises(PolicyError, match="temperature"):
        make_trainer(model).step([dataclasses.replace(t, temperature=1.0) for t in trajectories], 0, 0, 0)


def test_a_step_raises_the_probability_of_what_was_rewarded(
    make_model: Make, make_trajectories: Make, plain_logprobs: Make
) -> None:
    model = make_model()
    trajectories = sampled_by(model, plain_logprobs, make_trajectories({"a": [1.0, 0.0, 0.0, 0.0]}))
    before = [plain_logprobs(model, t, 0.9).sum().item() for t in trajectories]
    make_trainer(model).step(trajectories, 0, 0, 0)
    after = [plain_logprobs(model, t, 0.9).sum().item() for t in trajectories]
    advantages = group_advantages([t.score for t in trajectories], [0] * 4).tolist()
    assert sum(a * (new - old) for a, old, new in zip(advantages, before, after, strict=True)) > 0.1


def test_groups_without_variance_are_skipped_and_counted(make_model: Make, make_trajectories: Make) -> None:
    mixed = make_trajectories(MIXED)
    rest = make_trajectories(FAILED | SOLVED, seed=5)
    alone, together = make_model(), make_model()
    first = make_trainer(alone).step(mixed, 0, 0, 0)
    second = make_trainer(together).step([*rest, *mixed], 0, 0, 0)
    assert same(weights_of(alone), weights_of(together))
    assert (second.groups, second.groups_all_failed, second.groups_all_solved, second.groups_dropped) == (5, 1, 2, 0)
    assert second.trained_tokens == first.trained_tokens == first.action_tokens < second.action_tokens
    assert second.trajectories == 20
    assert second.reward == pytest.approx((3.3 + 8.0) / 20)


def test_a_batch_without_any_gradient_changes_nothing(make_model: Make, make_trajectories: Make) -> None:
    model = make_model()
    before = weights_of(model)
    trainer = make_trainer(model)
    update = trainer.step(make_trajectories(FAILED | SOLVED), 0, 0, 0)
    assert same(before, weights_of(model))
    assert (update.loss, update.gradient_norm, update.learning_rate, update.trained_tokens) == (0.0, 0.0, 0.0, 0)
    assert trainer.optimizer.updates == 0
    assert trainer.step([], 0, 0, 0).groups == 0


@pytest.mark.parametrize("status", ["engine_error", "env_error"])
def test_a_broken_rollout_makes_its_group_partial(make_model: Make, make_trajectories: Make, status: str) -> None:
    trajectories = make_trajectories(MIXED)
    trajectories[5] = dataclasses.replace(trajectories[5], status=status, score=0.0, steps=())
    whole, reduced = make_model(), make_model()
    update = make_trainer(reduced).step(trajectories, 0, 0, 0)
    assert (update.groups, update.groups_dropped) == (2, 1)
    make_trainer(whole).step(trajectories[:4], 0, 0, 0)
    assert same(weights_of(whole), weights_of(reduced))
    with pytest.raises(PolicyError, match="group b has 3 usable trajectories, not 4"):
        make_trainer(make_model(), on_partial_group="fail").step(trajectories, 0, 0, 0)


@pytest.mark.parametrize("status", ["truncated_steps", "truncated_tokens", "parse_error", "timeout"])
def test_what_the_agent_spoiled_is_trained_on(make_model: Make, make_trajectories: Make, status: str) -> None:
    trajectories = make_trajectories(MIXED)
    trajectories[1] = dataclasses.replace(trajectories[1], status=status)
    update = make_trainer(make_model()).step(trajectories, 0, 0, 0)
    assert (update.groups, update.groups_dropped) == (2, 0)
    assert update.trained_tokens == sum(len(s.token_ids) for t in trajectories for s in t.steps)


def test_a_step_without_a_group_that_is_whole_is_told(make_model: Make, make_trajectories: Make) -> None:
    broken = [dataclasses.replace(t, status="engine_error") for t in make_trajectories(MIXED)]
    with pytest.warns(UserWarning, match="step 7: none of 2 groups can be trained on"):
        update = make_trainer(make_model()).step(broken, 7, 0, 0)
    assert update.groups_dropped == 2


def test_an_episode_without_any_action_keeps_its_group_whole(make_model: Make, make_trajectories: Make) -> None:
    trajectories = make_trajectories({"a": [1.0, 0.0, 1.0, 0.0]})
    trajectories[1] = dataclasses.replace(trajectories[1], steps=(), status="timeout")
    update = make_trainer(make_model()).step(trajectories, 0, 0, 0)
    assert update.groups_dropped == 0
    assert update.gradient_norm > 0


def test_doubled_and_surplus_trajectories_do_not_make_a_group(make_model: Make, make_trajectories: Make) -> None:
    trajectories = make_trajectories(MIXED)
    doubled = [*trajectories[:3], trajectories[0], *trajectories[4:]]
    assert make_trainer(make_model()).step(doubled, 0, 0, 0).groups_dropped == 1
    surplus = [*trajectories, dataclasses.replace(trajectories[0], id="late")]
    assert make_trainer(make_model()).step(surplus, 0, 0, 0).groups_dropped == 1


def test_an_interrupt_leaves_model_and_optimizer_as_they_were(
    make_model: Make, make_trajectories: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_model()
    trainer = make_trainer(model, tokens_per_microbatch=30)
    trajectories = make_trajectories(MIXED)
    trainer.step(trajectories, 0, 0, 0)
    before, state = weights_of(model), copy.deepcopy(trainer.state_dict())
    calls = 0
    accumulate = trainer._accumulate

    def interrupted(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt
        return accumulate(*args)

    monkeypatch.setattr(trainer, "_accumulate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        trainer.step(trajectories, 1, 0, 0)
    assert calls == 2
    assert same(before, weights_of(model))
    assert all(p.grad is None for p in model.parameters())
    assert str(trainer.state_dict()) == str(state)
    monkeypatch.undo()
    # And the step can be taken again, as if nothing had happened.
    undisturbed = make_model()
    other = make_trainer(undisturbed, tokens_per_microbatch=30)
    for step in range(2):
        other.step(trajectories, step, 0, 0)
    trainer.step(trajectories, 1, 0, 0)
    assert same(weights_of(undisturbed), weights_of(model))


def test_a_gradient_that_is_not_finite_changes_nothing(make_model: Make, make_trajectories: Make) -> None:
    model = make_model()
    before = weights_of(model)
    trajectories = make_trajectories(MIXED)
    bad = dataclasses.replace(trajectories[0].steps[0], logprobs=(math.nan,) * len(trajectories[0].steps[0].token_ids))
    trajectories[0] = dataclasses.replace(trajectories[0], steps=(bad, *trajectories[0].steps[1:]))
    with pytest.raises(PolicyError, match="gradient norm"):
        make_trainer(model).step(trajectories, 0, 0, 0)
    assert same(before, weights_of(model))


@pytest.mark.parametrize("what", ["whole", "half", "lora"])
def test_a_resumed_trainer_goes_on_bit_for_bit(make_model: Make, make_trajectories: Make, what: str) -> None:
    def start() -> tuple[Any, Trainer]:
        model = make_model().to(torch.bfloat16 if what == "half" else torch.float32)
        if what == "lora":
            torch.manual_seed(4)
            model = get_peft_model(model, LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False))
        return model, make_trainer(model, warmup_steps=5, kl_coef=0.1)

    batches = [make_trajectories(MIXED, seed=seed) for seed in range(4)]
    model, trainer = start()
    for step in range(2):
        trainer.step(batches[step], step, 0, 0)
    saved = copy.deepcopy((model.state_dict(), trainer.state_dict()))
    expected = [dataclasses.replace(trainer.step(batches[step], step, 0, 0), seconds=0) for step in (2, 3)]

    resumed, again = start()
    resumed.load_state_dict(saved[0])
    again.load_state_dict(saved[1])
    assert [dataclasses.replace(again.step(batches[step], step, 0, 0), seconds=0) for step in (2, 3)] == expected
    assert same(weights_of(model), weights_of(resumed))


def test_a_trainer_goes_on_with_the_settings_that_it_has_now(make_model: Make) -> None:
    """A fork may change them; the optimizer's state would bring back those that the run began with."""
    before = make_trainer(make_model(), betas=(0.9, 0.999))
    after = make_trainer(make_model(), betas=(0.8, 0.95), weight_decay=0.1)
    after.load_state_dict(before.state_dict())
    groups = after.state_dict()["optimizer"]["param_groups"]
    assert {(group["betas"], group["weight_decay"]) for group in groups} == {((0.8, 0.95), 0.1)}


def test_lora_trains_the_adapter_only_against_the_model_without_it(
    make_model: Make, make_trajectories: Make, plain_logprobs: Make
) -> None:
    base = make_model()
    model = get_peft_model(copy.deepcopy(base), LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False))
    frozen = {n: p.detach().clone() for n, p in model.named_parameters() if not p.requires_grad}
    trajectories = make_trajectories(MIXED)
    with torch.no_grad():
        new = torch.cat([plain_logprobs(model, t, 0.9) for t in trajectories])
        ref = torch.cat([plain_logprobs(base, t, 0.9) for t in trajectories])
    update = make_trainer(model, kl_coef=0.1).step(trajectories, 0, 0, 0)
    expected = float((torch.exp(ref - new) - (ref - new) - 1).mean())
    assert expected > 1e-3
    assert update.kl == pytest.approx(expected, rel=1e-4)
    assert all(torch.equal(p, frozen[n]) for n, p in model.named_parameters() if n in frozen)


def test_the_reference_does_not_move_with_the_policy(make_model: Make, make_trajectories: Make) -> None:
    model = make_model()
    trainer = make_trainer(model, kl_coef=0.1)
    kls = [trainer.step(make_trajectories(MIXED), step, 0, 0).kl for step in range(3)]
    assert kls[0] < 1e-9 < kls[1] < kls[2]


def test_the_learning_rate_warms_up_and_stays(make_model: Make, make_trajectories: Make) -> None:
    trainer = make_trainer(make_model(), warmup_steps=2, learning_rate=1e-3)
    rates = [trainer.step(make_trajectories(MIXED), step, 0, 0).learning_rate for step in range(4)]
    assert rates == pytest.approx([5e-4, 1e-3, 1e-3, 1e-3])


def test_dropout_is_switched_off(make_model: Make, make_trajectories: Make) -> None:
    model = make_model()
    for module in model.modules():
        if hasattr(module, "attention_dropout"):
            module.attention_dropout = 0.5
    model.model.embed_tokens = torch.nn.Sequential(model.model.embed_tokens, torch.nn.Dropout(0.5))
    trainer = make_trainer(model)
    assert trainer.backward(make_trajectories(MIXED)) == trainer.backward(make_trajectories(MIXED))


def test_a_model_with_nothing_to_train_is_refused(make_model: Make) -> None:
    with pytest.raises(PolicyError, match="no trainable parameters"):
        make_trainer(make_model().requires_grad_(False))
