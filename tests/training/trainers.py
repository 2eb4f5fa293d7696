"""What tests of the trainer share: a trainer for tiny models, and trajectories that some sampler vouches for."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

from coevolve_lab.config import TrainingConfig
from coevolve_lab.records import Trajectory
from coevolve_lab.training import Trainer

MIXED = {"a": [1.0, 0.0, 1.0, 0.0], "b": [0.0, 0.3, 1.0, 0.0]}
Make = Callable[..., Any]


def make_trainer(model: Any, **config: Any) -> Trainer:
    # The log-probabilities that most of these tests make up are far from any model's.
    chosen = {"learning_rate": 1e-3, "gap_alarm": 99} | config
    return Trainer(model, TrainingConfig(**chosen), temperature=0.9, group_size=4)


def weights_of(model: Any) -> list[torch.Tensor]:
    return [p.detach().clone() for p in model.parameters()]


def same(before: list[torch.Tensor], after: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def sampled_by(model: Any, plain_logprobs: Make, trajectories: list[Trajectory]) -> list[Trajectory]:
    """The same trajectories with the log-probabilities that ``model`` gives to their ids."""
    made = []
    for t in trajectories:
        logp = plain_logprobs(model, t, t.temperature).tolist()
        steps = []
        for step in t.steps:
            steps.append(dataclasses.replace(step, logprobs=tuple(logp[: len(step.token_ids)])))
            logp = logp[len(step.token_ids) :]
        made.append(dataclasses.replace(t, steps=tuple(steps)))
    return made


def off_by(gap: float, trajectories: list[Trajectory]) -> list[Trajectory]:
    """The same trajectories as if a sampler had reported log-probabilities that differ by ``gap`` on average: most by
    less, one token in ten by five times as much, either way."""
    random = torch.Generator().manual_seed(0)
    made = []
    for t in trajectories:
        steps = []
        for step in t.steps:
            size = torch.tensor([5.0 if i % 10 == 3 else 0.55 for i in range(len(step.logprobs))])
            sign = torch.randint(0, 2, (len(size),), generator=random) * 2 - 1
            shifted = torch.tensor(step.logprobs) + gap * size * sign
            steps.append(dataclasses.replace(step, logprobs=tuple(shifted.tolist())))
        made.append(dataclasses.replace(t, steps=tuple(steps)))
    return made


def padded(rows: list[torch.Tensor]) -> torch.Tensor:
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
