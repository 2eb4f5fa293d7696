"""An API model's evaluation as a run folder: looked at, compared and queried like any other run."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coevolve_lab import environments
from coevolve_lab.config import Config, EndpointConfig, load_config
from coevolve_lab.endpoint import Cassette, Endpoint, Limits
from coevolve_lab.errors import ConfigError
from coevolve_lab.evaluation.api_model import ROLE, evaluate_model
from coevolve_lab.records import Evaluation, StageCost
from coevolve_lab.store import RunWriter

PREFIX = "openai:"  # the protocol, not the vendor
CASSETTE = Path("explorer") / "cassette.jsonl"


def api_config(model: str, env: str, split: str, **changes: Any) -> Config:
    """The config of the run folder, ``env`` naming the environment and ``changes`` settings on top.

    model: "openai:NAME". Raises ConfigError for anything else.
    """
    if not model.startswith(PREFIX) or not model.removeprefix(PREFIX):
        raise ConfigError(f"'{model}' is not the name of an API model; write openai:NAME, e.g. openai:qwen3-max")
    start = {
        "name": model,
        "rounds": 0,
        "environment": {"name": env, "evaluation_split": split},
        "policy": {"model": model},
    }
    return load_config(start, **changes)


def evaluate_api(
    config: Config,
    run_dir: str | Path,
    endpoint: EndpointConfig,
    limits: Limits | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Play the config's evaluation split with an API model, into a run folder; a finished one is only read.

    The folder then holds the tasks, trajectories, every call with its cost, and the evaluation, as round 0. progress:
    called with (played, total). Raises ExplorerError when the endpoint or a budget cut it short (nothing is lost: call
    it again), StoreError when the folder is another run's, PrerequisiteError for a benchmark that is not installed.
    """
    run_dir = Path(run_dir)
    split = config.environment.evaluation_split
    environment = environments.make(config.environment.name, **config.environment.arguments())
    tasks = environment.tasks(split)  # before a folder keeps a config that cannot be played
    started = (run_dir / "config.json").exists()
    with RunWriter.open(run_dir, config) if started else RunWriter.create(run_dir, config) as writer:
        if writer.committed_round is not None:
            return writer.reader.records(Evaluation)[-1]
        asked = Endpoint({ROLE: endpoint}, limits or Limits(), Cassette(run_dir / CASSETTE))
        played, began = 0, time.monotonic()

        def advance(count: int) -> None:
            nonlocal played
            played += count
            if progress is not None:
                progress(played, len(tasks))

        evaluation, trajectories = evaluate_model(
            environment,
            tasks,
            asked,
            split=split,
            name=f"eval-{split}-v0-0",
            max_steps=config.environment.max_steps,
            defects=getattr(environment, "known_defects", frozenset)(),
            progress=advance,
        )
        calls = asked.drain()
        tokens = sum(call.prompt_tokens + call.completion_tokens for call in calls)
        cost = StageCost(0, "evaluate", time.monotonic() - began, len(tasks), tokens, len(calls))
        writer.append([*tasks, evaluation, *trajectories, *calls, cost])
        writer.commit(0, counters={"tasks": len(tasks)})
        return evaluation
