"""Training on what another sampler, or an older version of the policy, said its log-probabilities were."""

from __future__ import annotations

import dataclasses
import math
import warnings
from typing import Any

import pytest
import torch

from coevolve_lab.config import TrainingConfig
from coevolve_lab.records import Trajectory
from coevolve_lab.training import Trainer, group_advantages, grpo_loss
from tests.training.trainers import MIXED, Make, make_trainer, off_by, padded, same, sampled_by, weights_of


@pytest.mark.parametrize("importance", ["token", "sequence"])
def test_correction_is_grpo_loss_with_the_weights_of_ordinary_forward_passes(
    make_model: Make, make_trajectories: Make, plain_logprobs: Make, importance: str
) -> None:
    model, reference = make_model(seed=2), make_model(seed=2)
    trainer = make_trainer(model, kl_coef=0.05, importance=importance, importance_cap=1.5)
    model.load_state_dict(make_model(seed=1).state_dict())
    trajectories = off_by(0.3, sampled_by(model, plain_logprobs, make_trajectories(MIXED)))
    measured = trainer.backward(trajectories)

    logp = [plain_logprobs(model, t, 0.9) for t in trajectories]
    with torch.no_grad():
        ref = [plain_logprobs(reference, t, 0.9) for t in trajectories]
    log_weights = []
    for row, t in zip(logp, trajectories, strict=True):
        gaps = row.detach() - torch.tensor([p for s in t.steps for p in s.logprobs])
        log_weights.append(gaps if importance == "token" else gaps.sum().expand(len(gaps)))
    weights = [row.exp().clamp(max=1.5) for row in log_weights]
    groups = [t.group_id for t in trajectories]
    loss = grpo_loss(
        padded(logp), padded(logp).detach(), padded(ref), group_advantages([t.score for t in trajectories], groups),
        padded([torch.ones(len(row)) for row in logp]), groups, kl_coef=0.05, importance=padded(weights),
    )  # fmt: skip
    gradient = torch.autograd.grad(loss, list(model.parameters()))
    assert measured["loss"] == pytest.approx(loss.item(), abs=1e-6)
    scale = max(1.0, *(float(g.abs().max()) for g in gradient))
    for parameter, expected in zip(model.parameters(), gradient, strict=True):
        assert torch.allclose(parameter.grad, expected, atol=1e-6 * scale)
    capped = float((torch.cat(log_weights) > math.log(1.5)).float().mean())
    assert 0 < capped < 1
    assert measured["capped_fraction"] == pytest.approx(capped)
    assert measured["clip_fraction"] == 0.0


@pytest.mark.parametrize("importance", ["token", "sequence"])
def test_correction_changes_nothing_where_sampler_and_trainer_agree(
    make_model: Make, make_trajectories: Make, plain_logprobs: Make, importance: str
) -> None:
    gradients = []
    for mode in ("off", importance):
        model = make_model()
        trajectories = sampled_by(model, plain_logprobs, make_trajectories(MIXED))
        assert make_trainer(model, importance=mode).backward(trajectories)["capped_fraction"] == 0.0
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    assert torch.allclose(*gradients, atol=1e-5)


def test_a_large_gap_is_warned_about_once_a_round(
    make_model: Make, make_trajectories: Make, plain_logprobs: Make
) -> None:
    model = make_model()
    trainer = make_trainer(model, gap_alarm=0.1, learning_rate=1e-9)
    agreed = sampled_by(model, plain_logprobs, make_trajectories(MIXED))
    apart = off_by(0.3, agreed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert trainer.step(agreed, 0, 1, 0).gap_largest < 1e-4
    with pytest.warns(UserWarning, match=r"nats a token .*gap_alarm is 0.1") as caught:
        updates = [trainer.step(apart, step, round, 0) for step, round in ((1, 1), (2, 1), (3, 2))]
    assert [str(warning.message).split(":")[0] for warning in caught] == ["step 1", "step 3"]
    assert all(0.2 < update.logprob_gap < update.gap_largest < 1.6 for update in updates)


def test_what_is_too_old_is_refused_and_counted(make_model: Make, make_trajectories: Make) -> None:
    """Version 4 is trained: of versions 4 and 3 it may learn, of 2 not."""
    ages = {"new": 4, "last": 3, "old": 2}
    batches = {
        name: [dataclasses.replace(t, policy_version=version) for t in make_trajectories({name: MIXED["a"]})]
        for name, version in ages.items()
    }
    batch = [t for trajectories in batches.values() for t in trajectories]

    def trained(trajectories: list[Trajectory], bound: int | None) -> tuple[Any, torch.Tensor]:
        model = make_model()
        trainer = Trainer(model, TrainingConfig(gap_alarm=99), temperature=0.9, group_size=4, max_staleness=bound)
        update = trainer.step(trajectories, step=5, round=1, policy_version=5)
        return update, torch.cat([p.detach().flatten() for p in model.parameters()])

    with pytest.warns(UserWarning, match="4 of 12 trajectories are not trained: version 2 "):
        update, weights = trained(batch, 1)
    assert (update.staleness_largest, update.stale, update.groups, update.trajectories) == (1, 4, 2, 12)
    assert torch.equal(weights, trained(batches["new"] + batches["last"], None)[1])
    assert trained(batch, None)[0].staleness_largest == 2
    assert trained(batches["new"], 0)[0].stale == 0
    with pytest.warns(UserWarning, match="8 of 8"):
        update, weights = trained(batches["last"] + batches["old"], 0)
    assert (update.stale, update.staleness_largest, update.groups, update.gradient_norm) == (8, 0, 0, 0.0)
    assert torch.equal(weights, torch.cat([p.detach().flatten() for p in make_model().parameters()]))


def test_a_gap_that_updates_explain_raises_no_alarm(make_model: Make, make_trajectories: Make) -> None:
    """Among stale trajectories, nobody can tell the sampler's share of the gap."""
    trajectories = make_trajectories(MIXED)  # of version 0, and far from what the model says
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        update = make_trainer(make_model(), gap_alarm=0.05).step(trajectories, step=2, round=1, policy_version=2)
    assert update.staleness_largest == 1
    assert update.logprob_gap > 0.05
    with pytest.warns(UserWarning, match="sampler and trainer differ"):
        make_trainer(make_model(), gap_alarm=0.05).step(trajectories, step=1, round=1, policy_version=1)


def test_a_warning_that_is_raised_leaves_the_model_as_it_was(make_model: Make, make_trajectories: Make) -> None:
    model = make_model()
    before, trainer = weights_of(model), make_trainer(model, gap_alarm=0.05)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="gap_alarm"):
            trainer.step(make_trajectories(MIXED), 0, 0, 0)
    assert same(before, weights_of(model))
    assert all(p.grad is None for p in model.parameters())
