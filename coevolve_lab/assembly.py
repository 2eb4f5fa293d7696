"""Builds the parts of a run from its config, and puts a committed checkpoint back into them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from coevolve_lab import environments
from coevolve_lab.config import Config
from coevolve_lab.environments.base import Environment, ScriptedWorld
from coevolve_lab.errors import ConfigError
from coevolve_lab.evolution import Explorer, Guard, StartPool, TaskSet, make_explorer
from coevolve_lab.policy.policy import Policy, build_policy
from coevolve_lab.policy.warm_start import TOKENIZER, tiny_policy, warm_started
from coevolve_lab.records import Task
from coevolve_lab.signals import Detector, build_detectors
from coevolve_lab.store import RunReader
from coevolve_lab.training.trainer import Trainer

OPTIMIZER = "trainer.pt"


@dataclass
class Parts:
    """Everything a run works with. ``visits``: how often each task was rolled out."""

    environment: Environment
    policy: Policy
    trainer: Trainer
    detectors: list[Detector]
    explorer: Explorer
    starts: StartPool
    guard: Guard
    task_set: TaskSet
    visits: dict[str, int] = field(default_factory=dict)
    step: int = 0
    warm_start_cached: bool | None = None  # None: the policy was not warm-started here

    def state(self) -> dict[str, Any]:
        """What a checkpoint holds besides weights, as plain JSON (design rule 7)."""
        return {
            "step": self.step,
            "visits": self.visits,
            "detectors": {detector.kind: detector.state() for detector in self.detectors},
        }

    def save(self, folder: Path) -> None:
        """Weights, version and optimizer of this moment, and the tiny policy's vocabulary."""
        self.policy.save(folder)
        torch.save(self.trainer.state_dict(), folder / OPTIMIZER)
        tokenizer = getattr(self.policy.chat, "tokenizer", None)
        if tokenizer is not None and hasattr(tokenizer, "get_vocab_size"):
            tokenizer.save(str(folder / TOKENIZER))


def available_threads(config: Config) -> int:
    """Torch threads for this run: as configured, else what the process may really use."""
    import os

    return config.threads or len(os.sched_getaffinity(0))


def assemble(
    config: Config, reader: RunReader | None, progress: Callable[[int, int, float], None] | None = None
) -> Parts:
    """Fresh parts, or the parts of the last committed round when ``reader`` is of a run that has one.

    The reference policy is the policy before any training: the first checkpoint's weights (equation 1).
    """
    torch.set_num_threads(available_threads(config))
    environment = environments.make(config.environment.name, **environment_options(config))
    first = None if reader is None or reader.committed_round is None else reader.checkpoint(min(reader.manifests()))
    policy, cached = _policy(config, environment, first, progress)
    trainer = Trainer(policy.model, config.training, config.rollout.temperature, config.rollout.group_size)
    detectors = build_detectors(config.signals)
    evaluation = environment.tasks(config.environment.evaluation_split)
    parts = Parts(
        environment=environment,
        policy=policy,
        trainer=trainer,
        detectors=detectors,
        explorer=make_explorer(config.evolution.explorer, environment, config.evolution),
        starts=StartPool(environment),
        guard=Guard.from_config(config.evolution, evaluation),
        task_set=TaskSet(),
        warm_start_cached=cached,
    )
    if first is not None and reader is not None:
        _restore(parts, reader)
    return parts


def environment_options(config: Config) -> dict[str, Any]:
    return {"max_observation_chars": config.environment.max_observation_chars, **config.environment.options}


def _policy(
    config: Config,
    environment: Environment,
    first: Path | None,
    progress: Callable[[int, int, float], None] | None,
) -> tuple[Policy, bool | None]:
    if config.policy.model != "tiny":
        policy = build_policy(config.policy)
        if first is not None:
            policy.load(first)
        return policy, None
    if first is not None:
        return tiny_policy(config.policy, first), None
    if not isinstance(environment, ScriptedWorld):
        raise ConfigError(
            f"policy.model 'tiny' needs demonstrations, and environment '{environment.name}' makes none; "
            "name a pretrained model"
        )
    policy, _, cached = warm_started(config.policy, environment, environment_options(config), progress)  # type: ignore[arg-type]
    return policy, cached


def _restore(parts: Parts, reader: RunReader) -> None:
    last = reader.checkpoint()
    parts.policy.load(last)
    parts.trainer.load_state_dict(torch.load(last / OPTIMIZER, weights_only=True))
    state = reader.state()
    parts.step = int(state["step"])
    parts.visits = {task: int(count) for task, count in state["visits"].items()}
    for detector in parts.detectors:
        if detector.kind in state["detectors"]:
            detector.load(state["detectors"][detector.kind])
    parts.task_set = TaskSet(reader.records(Task))
