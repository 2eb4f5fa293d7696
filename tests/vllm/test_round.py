"""Whole rounds sampled by a vLLM server: one that was joined, and one of the run's own that dies."""

from __future__ import annotations

import dataclasses
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from coevolve_lab import CoEvolve
from coevolve_lab.background import VllmServer
from coevolve_lab.config import EngineConfig, load_config
from coevolve_lab.errors import ConfigError
from coevolve_lab.policy.engine import Request
from coevolve_lab.policy.torch_engine import TorchEngine
from coevolve_lab.policy.vllm_engine import VllmEngine
from coevolve_lab.records import Evaluation, Trajectory, Update
from tests.loop_world import CONFIG, assert_nothing_twice, warm_cache
from tests.vllm.conftest import Served

pytestmark = [pytest.mark.vllm, pytest.mark.usefixtures(warm_cache.__name__)]
CLOSE = 1e-5  # of float32 log-probabilities between the server and the trainer
SMALL = {
    "rollout": {"tasks_per_step": 2, "group_size": 2, "max_action_tokens": 8, "max_response_tokens": 16},
    "training": {"steps_per_round": 1},
    "evolution": {"initial_tasks": 4, "contexts_per_round": 2},
}


def _engine(run: CoEvolve) -> VllmEngine:
    engine = run._ready().policy.engine
    assert isinstance(engine, VllmEngine)
    return engine


def _round(run: CoEvolve) -> None:
    """A round whose first batch is praised at random, so that there is something to learn."""
    batch = run.rollout()
    praised = [dataclasses.replace(t, score=float(k % 2)) for k, t in enumerate(batch)]
    assert run.train(praised).gradient_norm > 0
    run.find_signals(praised)
    run.round()


def _check(run: CoEvolve, version: int) -> None:
    """Every token was sampled by the version it is told to be of, and scored alike by the trainer."""
    updates = run.reader.records(Update)
    assert [update.policy_version for update in updates] == list(range(1, version + 1))
    assert all(update.trained_tokens and update.logprob_gap < CLOSE for update in updates if update.gradient_norm)
    sampled = run.reader.records(Trajectory, "purpose = 'train'")
    assert {t.policy_version for t in sampled} == set(range(version))
    assert all(t.status != "engine_error" and t.steps for t in run.reader.records(Trajectory))
    assert run.reader.records(Evaluation)[-1].policy_version == version
    swap = _engine(run).last_swap
    assert swap is not None
    assert swap.version == version
    assert swap.gap < CLOSE
    assert swap.moved > swap.gap
    assert_nothing_twice(run)


def test_a_round_with_an_adapter_in_a_joined_server(server: Served, model_folder: Path, tmp_path: Path) -> None:
    tree: dict[str, Any] = {**CONFIG, "engine": {"kind": "vllm", "url": server.url, "proof_tolerance": CLOSE}}
    tree["policy"] = {"model": str(model_folder), "dtype": "float32", "device": "cpu", "lora": {"rank": 4, "alpha": 8}}
    with CoEvolve(load_config(tree, **SMALL), tmp_path / "run", progress=False) as run:
        run.seed_tasks()
        _round(run)
        _check(run, 1)
        first = _engine(run).last_swap
    run = CoEvolve.open(tmp_path / "run", progress=False)  # finds the server as the first object left it
    _round(run)
    _check(run, 2)
    engine = _engine(run)
    assert first is not None
    assert engine.last_swap is not None
    assert engine.last_swap.name != first.name
    assert engine.restarts == engine.missed == 0


def test_whole_weights_on_a_cpu_are_refused_before_anything_starts(engine_config: EngineConfig, tmp_path: Path) -> None:
    engine = {"kind": "vllm", "python": engine_config.python}
    with (
        CoEvolve(load_config({**CONFIG, "engine": engine}), tmp_path / "run", progress=False) as run,
        pytest.raises(ConfigError, match=r"policy\.lora"),
    ):
        run.seed_tasks()
    assert VllmServer(tmp_path / "run" / "server").status().state == "none"


def test_a_server_of_the_runs_own_that_dies_is_started_again_and_ends_with_the_run(
    server: Served, engine_config: EngineConfig, model_folder: Path, tmp_path: Path
) -> None:
    server.stop()  # two would be too many for a small machine
    engine = {**engine_config.model_dump(), "proof_tolerance": CLOSE}
    policy = {"model": str(model_folder), "dtype": "float32", "device": "cpu", "lora": {"rank": 4, "alpha": 8}}
    config = load_config({**CONFIG, "engine": engine, "policy": policy}, **SMALL)
    run = CoEvolve(config, tmp_path / "run", progress=False)
    run.seed_tasks()
    _round(run)
    _check(run, 1)
    own = VllmServer(run.run_dir / "server")
    assert own.status().state == "ready"
    model, chat = run._ready().policy.model, run._ready().policy.chat
    played = run.reader.records(Trajectory, "purpose = 'evaluate'")
    asked = [Request(t.id, t.prompt_ids, 8) for t in played]
    here = TorchEngine(model, chat.end_ids, chat.pad_id).generate(asked, 0.0, 0)
    assert [c.ids for c in here] == [t.steps[0].token_ids for t in played]
    os.kill(own.status().pid or 0, signal.SIGKILL)
    _round(run)
    _check(run, 2)
    assert _engine(run).restarts == 1
    run.close()
    assert own.status().state in ("dead", "none")
