from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch

from coevolve_lab.config import TrainingConfig
from coevolve_lab.records import Trajectory
from coevolve_lab.training import Trainer
from coevolve_lab.training.batch import worth_imitating

SCORES = {"a": [1.0, 0.0, 1.0, 0.5], "b": [0.0, 0.3, 1.0, 0.0], "failed": [0.0] * 4, "solved": [1.0] * 4}
Make = Callable[..., Any]


def _trainer(model: Any, **config: Any) -> Trainer:
    return Trainer(model, TrainingConfig(**({"learning_rate": 1e-3} | config)), temperature=0.9, group_size=4)


def _gradients(model: Any) -> list[torch.Tensor]:
    return [p.grad.clone() for p in model.parameters()]


@pytest.mark.parametrize("tokens", [40, 10_000])
@pytest.mark.parametrize("above", [0.0, 0.5])
def test_the_gradient_is_that_of_a_plain_negative_log_likelihood(
    make_model: Make, make_trajectories: Make, plain_logprobs: Make, tokens: int, above: float
) -> None:
    model = make_model("qwen3", seed=1)
    trainer = _trainer(model, tokens_per_microbatch=tokens)
    trajectories = make_trajectories(SCORES)
    seen: list[list[torch.Tensor]] = []

    def look() -> None:
        seen.append(_gradients(model))

    chosen = [t for t in trajectories if t.score > above]
    model.zero_grad()
    expected_loss = -torch.cat([plain_logprobs(model, t, 1.0) for t in chosen]).mean()
    expected_loss.backward()
    expected = _gradients(model)
    update = trainer.imitate(trajectories, step=1, round=1, policy_version=1, above=above, before_change=look)
    for ours, plain in zip(seen[0], expected, strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-4, atol=1e-6)
    assert update.loss == pytest.approx(float(expected_loss.detach()), rel=1e-5)
    assert update.trained_tokens == sum(len(s.token_ids) for t in chosen for s in t.steps)
    assert update.gradient_norm == pytest.approx(float(torch.cat([g.flatten() for g in expected]).norm()), rel=1e-4)
    assert (update.kl, update.clip_fraction, update.logprob_gap, update.gap_largest) == (0, 0, 0, 0)
    assert update.entropy > 0


def test_imitation_makes_what_was_imitated_likelier(
    make_model: Make, make_trajectories: Make, plain_logprobs: Make
) -> None:
    model = make_model()
    trainer, trajectories = _trainer(model, learning_rate=1e-2), make_trajectories(SCORES)
    losses = [trainer.imitate(trajectories, step, 1, step, above=0.5).loss for step in range(6)]
    assert losses[-1] < losses[0]
    assert trainer.optimizer.updates == 6


def test_the_update_counts_groups(make_trajectories: Make, make_model: Make) -> None:
    trajectories = make_trajectories(SCORES)
    broken = [dataclasses.replace(t, status="env_error") if t.group_id == "b" else t for t in trajectories]
    update = _trainer(make_model()).imitate(broken, 3, 2, 7, above=0.5)
    assert (update.groups, update.groups_all_failed, update.groups_all_solved, update.groups_dropped) == (4, 1, 0, 1)
    assert (update.step, update.round, update.policy_version, update.trajectories) == (3, 2, 7, 16)
    assert update.reward == pytest.approx(sum(t.score for t in broken if t.group_id != "b") / 12)


def test_what_is_worth_imitating(make_trajectories: Make) -> None:
    trajectories = make_trajectories(SCORES)
    assert {t.score for t in worth_imitating(trajectories, 0.0).trained} == {0.3, 0.5, 1.0}
    batch = worth_imitating(trajectories, 0.9)
    assert [t.id for t in batch.trained] == ["a-0", "a-2", "b-2", "solved-0", "solved-1", "solved-2", "solved-3"]
    assert (batch.groups, batch.trained_groups, batch.all_failed, batch.dropped) == (4, 3, 1, 0)
    silent = [dataclasses.replace(t, steps=()) for t in trajectories]
    assert worth_imitating(silent, 0.0).trained == ()


def test_nothing_worth_imitating_changes_nothing(make_model: Make, make_trajectories: Make) -> None:
    model = make_model()
    trainer = _trainer(model)
    before = [p.detach().clone() for p in model.parameters()]
    update = trainer.imitate(make_trajectories({"failed": [0.0] * 4}), 1, 1, 1)
    assert (update.trained_tokens, update.loss, update.gradient_norm, trainer.optimizer.updates) == (0, 0, 0, 0)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_an_interrupted_step_leaves_the_model_as_it_was(make_model: Make, make_trajectories: Make) -> None:
    model = make_model()
    trainer = _trainer(model)
    before = [p.detach().clone() for p in model.parameters()]
    trajectories: list[Trajectory] = make_trajectories(SCORES)

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trainer.imitate(trajectories, 1, 1, 1, before_change=interrupted)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert all(p.grad is None for p in model.parameters())
