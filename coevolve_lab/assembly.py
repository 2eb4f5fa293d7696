"""Builds the parts of a run from its config, and puts a committed checkpoint back into them."""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from coevolve_lab import environments
from coevolve_lab.background.vllm_build import CPU_HEAD_SIZES, find_vllm
from coevolve_lab.background.vllm_server import VllmServer
from coevolve_lab.config import Config
from coevolve_lab.cores import available_threads
from coevolve_lab.environments.base import Environment, ScriptedWorld
from coevolve_lab.errors import ConfigError, PolicyError, StoreError
from coevolve_lab.evolution import Explorer, Guard, StartPool, TaskSet, judge_of, make_explorer
from coevolve_lab.policy.policy import Policy, build_policy, served_model
from coevolve_lab.policy.vllm_engine import VllmEngine
from coevolve_lab.policy.warm_start import TOKENIZER, tiny_policy, warm_started
from coevolve_lab.records import Task
from coevolve_lab.signals import Detector, build_detectors
from coevolve_lab.store import RunReader
from coevolve_lab.training.trainer import Trainer

OPTIMIZER = "trainer.pt"
EXPLORER = "explorer"  # folder in the run where its explorer keeps what it recorded
SERVED_NAME = "policy-base"
SERVER = "server"  # folder in the run of the vLLM server that samples for it
_threads_of_run: list[int] = []  # torch's threads as the last run that was assembled in this process set them


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
    stop_server: Callable[[], object] | None = None  # ends the model server that was started for these parts

    def close(self) -> None:
        """End what lives outside of this process."""
        if self.stop_server is not None:
            self.stop_server()

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


def assemble(
    config: Config, reader: RunReader | None, progress: Callable[[int, int, float], None] | None = None
) -> Parts:
    """Fresh parts, or the parts of the last committed round when ``reader`` is of a run that has one.

    The reference policy is the policy before any training: the first checkpoint's weights (equation 1).
    """
    _threads_of_run[:] = [available_threads(config.threads)]
    torch.set_num_threads(_threads_of_run[0])
    environment = environments.make(config.environment.name, **config.environment.arguments())
    first = None if reader is None or reader.committed_round is None else reader.checkpoint(min(reader.manifests()))
    policy, cached = _policy(config, environment, first, progress)
    rollout = config.rollout
    bound = rollout.max_staleness or None  # 0: nothing is sampled ahead, and what is trained by hand is as old as it is
    trainer = Trainer(policy.model, config.training, rollout.temperature, rollout.group_size, bound)
    detectors = build_detectors(config.signals)
    evaluation = environment.tasks(config.environment.evaluation_split)
    parts = Parts(
        environment=environment,
        policy=policy,
        trainer=trainer,
        detectors=detectors,
        explorer=make_explorer(
            config.evolution.explorer.kind,
            environment,
            config.evolution,
            None if reader is None else reader.run_dir / EXPLORER,
        ),
        starts=StartPool(environment),
        guard=Guard.from_config(config.evolution, evaluation),
        task_set=TaskSet(),
        warm_start_cached=cached,
    )
    if config.evolution.judge != "off":
        judge_of(parts.explorer)  # an explorer that cannot judge is told of before anything is explored
    if first is not None and reader is not None:
        _restore(parts, reader)
    if config.engine.kind == "vllm":
        if reader is None:
            raise ConfigError("engine.kind 'vllm' needs a run folder: the server is kept and finds its weights there")
        parts.stop_server = _sample_by_server(config, policy, reader.run_dir / SERVER)
    return parts


def stored_versions(reader: RunReader) -> dict[int, int]:
    """The policy versions that a run has stored, oldest first, and the round whose checkpoint holds each.

    One version a committed round: those between two commits are gone. Raises PolicyError for a damaged checkpoint.
    """
    found: dict[int, int] = {}
    for round, manifest in sorted(reader.manifests().items()):
        if manifest.checkpoint is not None:
            found.setdefault(_version_in(reader.checkpoint(round)), round)
    return found


def round_of_version(reader: RunReader, version: int) -> int:
    """The round whose checkpoint holds a policy version. Raises StoreError naming those that are stored."""
    found = stored_versions(reader)
    if version not in found:
        stored = ", ".join(f"{known} (round {round})" for known, round in found.items())
        raise StoreError(
            f"version {version} of the policy is not stored in {reader.run_dir}; "
            + (f"stored versions: {stored}" if stored else "none is: a version is stored with each committed round")
        )
    return found[version]


def stored_policy(config: Config, reader: RunReader, round: int) -> tuple[Environment, Policy]:
    """The policy of a committed round and the environment that it acts in, without anything that trains or explores.

    Only the checkpoint is read. Torch's threads are left as a run of this process set them; without one they are set as
    the config says. Raises StoreError for a round without a checkpoint and PolicyError for one that cannot be used.
    """
    checkpoint = reader.checkpoint(round)
    if not _threads_of_run:
        torch.set_num_threads(available_threads(config.threads))
    environment = environments.make(config.environment.name, **config.environment.arguments())
    policy, _ = _policy(config, environment, checkpoint, None)
    return environment, policy


def _policy(
    config: Config,
    environment: Environment,
    checkpoint: Path | None,
    progress: Callable[[int, int, float], None] | None,
) -> tuple[Policy, bool | None]:
    if config.policy.model != "tiny":
        policy = build_policy(config.policy)
        if checkpoint is not None:
            policy.load(checkpoint)
        return policy, None
    if checkpoint is not None:
        return tiny_policy(config.policy, checkpoint), None
    if not isinstance(environment, ScriptedWorld):
        raise ConfigError(
            f"policy.model 'tiny' needs demonstrations, and environment '{environment.name}' makes none; "
            "name a pretrained model"
        )
    warm = config.policy.warm_start
    if (warm.noise_common or warm.noise_rare) and not hasattr(environment, "confusable"):
        raise ConfigError(
            f"policy.warm_start.noise_* plants confusions, and environment '{environment.name}' has no "
            "confusable(tool); set both to 0"
        )
    policy, _, cached = warm_started(config.policy, environment, config.environment.arguments(), progress)  # type: ignore[arg-type]
    return policy, cached


def _sample_by_server(config: Config, policy: Policy, folder: Path) -> Callable[[], object] | None:
    """Start the run's vLLM server, or join one, and hand it the policy. Returns what ends a server of ours, which its
    engine does as well when it is dropped."""
    ends, versions = policy.chat.end_ids, folder / "versions"
    if config.engine.url is not None:
        joined = VllmEngine(config.engine.url, None, ends, config.engine)
        policy.sample_by(joined, versions)
        _let_sleep(config, joined)
        return None
    adapter = config.policy.lora if hasattr(policy.model, "peft_config") else None
    if find_vllm(config.engine.python).cpu:
        check_for_cpu(policy.model.config, adapter is not None)
    model = served_model(config.policy, policy, folder)
    positions = getattr(policy.model.config, "max_position_embeddings", config.engine.max_model_len)
    settings = config.engine.model_copy(update={"max_model_len": min(config.engine.max_model_len, positions)})
    rank = None if adapter is None else adapter.rank
    dtype = str(policy.model.dtype).removeprefix("torch.")
    server = VllmServer(folder)

    def begin() -> str:
        server.start(model, settings, lora_rank=rank, dtype=dtype, served_name=SERVED_NAME)
        return server.wait_ready(config.engine.ready_seconds)

    def begin_again() -> str:
        server.stop()  # it may be hung rather than dead
        return begin()

    engine = VllmEngine(begin(), SERVED_NAME, ends, config.engine, begin_again)
    stop = weakref.finalize(engine, server.stop)
    policy.sample_by(engine, versions)
    _let_sleep(config, engine)
    return stop


def check_for_cpu(model: Any, adapter: bool) -> None:
    """Refuse what vLLM's CPU build cannot serve before a server is started for it; model: a transformers config."""
    if not adapter:
        raise ConfigError(
            "engine.kind 'vllm' trains whole weights on a GPU only: vLLM's CPU build goes on with packed copies of "
            "those that it started with. Set policy.lora (with a pretrained model), or engine.kind to 'torch'"
        )
    size = getattr(model, "head_dim", None) or model.hidden_size // model.num_attention_heads
    if size not in CPU_HEAD_SIZES:
        raise ConfigError(
            f"vLLM's CPU build has no attention for heads of {size}, the size in this policy's model; it has "
            f"{', '.join(map(str, CPU_HEAD_SIZES))}. Name another policy.model, or set engine.kind to 'torch'"
        )


def _let_sleep(config: Config, engine: VllmEngine) -> None:
    """The first stage that is called may be training, which then needs the memory."""
    if config.engine.sleep:
        engine.sleep()


def _version_in(checkpoint: Path) -> int:
    try:
        return int(json.loads((checkpoint / "policy.json").read_text())["version"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PolicyError(f"no usable policy checkpoint in {checkpoint}: {error}") from error


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
