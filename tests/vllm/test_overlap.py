"""A whole round whose steps are sampled ahead by a real server: every token of the version that it is told to be of."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from coevolve_lab import CoEvolve
from coevolve_lab.config import load_config
from coevolve_lab.policy.policy import trainable_weights
from coevolve_lab.policy.vllm_engine import VllmEngine
from coevolve_lab.records import StageCost, Trajectory, Update
from tests.loop_world import CONFIG, assert_nothing_twice, warm_cache
from tests.vllm.conftest import Served
from tests.vllm.test_engine import running, served

pytestmark = [pytest.mark.vllm, pytest.mark.usefixtures(warm_cache.__name__)]
CLOSE = 1e-5  # of float32 log-probabilities between the server and the trainer
Weights = dict[str, torch.Tensor]


def sampled_logprobs(model: Any, trajectory: Trajectory) -> tuple[list[float], list[float]]:
    """Log-probabilities of the sampled tokens, by the model as it is now and as recorded."""
    ids = list(trajectory.prompt_ids)
    at: list[int] = []
    for step in trajectory.steps:
        at += range(len(ids), len(ids) + len(step.token_ids))
        ids += [*step.token_ids, *step.reply_ids]
    with torch.inference_mode():
        scores = (model(torch.tensor([ids])).logits[0].float() / trajectory.temperature).log_softmax(-1)
    return [scores[i - 1, ids[i]].item() for i in at], [p for step in trajectory.steps for p in step.logprobs]


def test_a_round_whose_steps_are_sampled_ahead(server: Served, model_folder: Path, tmp_path: Path) -> None:
    tree: dict[str, Any] = {**CONFIG, "engine": {"kind": "vllm", "url": server.url, "proof_tolerance": CLOSE}}
    tree["policy"] = {"model": str(model_folder), "dtype": "float32", "device": "cpu", "lora": {"rank": 4, "alpha": 8}}
    config = load_config(
        tree,
        rollout={
            "tasks_per_step": 4, "group_size": 4, "max_action_tokens": 32, "max_response_tokens": 64, "max_staleness": 1
        },
        training={"steps_per_round": 4, "learning_rate": 1e-2},
        evolution={"initial_tasks": 4, "contexts_per_round": 2},
    )  # fmt: skip
    weights: dict[int, Weights] = {}
    busy: dict[int, float] = {}  # requests that the server had from us while a step trained
    with CoEvolve(config, tmp_path / "run", progress=False) as run:
        run.seed_tasks()
        parts = run.parts
        learn = parts.trainer.step

        def praising(batch: Sequence[Trajectory], *, step: int, **given: Any) -> Update:
            """Random praise, so that there is something to learn, and a copy of what each version was."""
            weights[step - 1] = {name: w.clone() for name, w in trainable_weights(parts.policy.model).items()}
            engine = parts.policy.engine
            assert isinstance(engine, VllmEngine)
            busy[step] = _patiently(engine) if run._lookahead.draw is not None else 0
            return learn([dataclasses.replace(t, score=float(k % 2)) for k, t in enumerate(batch)], step=step, **given)

        parts.trainer.step = praising  # type: ignore[assignment, method-assign]
        run.round()
        run.round()
        updates = run.reader.records(Update)
        assert [u.staleness_largest for u in updates] == [0, 1, 1, 1] * 2
        assert all(u.gradient_norm > 0 and u.stale == 0 for u in updates)
        assert all(u.logprob_gap < CLOSE for u in updates if not u.staleness_largest)
        assert all(u.logprob_gap > 10 * CLOSE for u in updates if u.staleness_largest)  # of one update between
        assert [step for step, flights in busy.items() if flights] == [1, 2, 3, 5, 6, 7]
        trajectories = run.reader.records(Trajectory, "purpose = 'train'")
        for step in range(1, 9):
            of_step = [t for t in trajectories if t.step == step]
            assert len(of_step) == 16
            assert {t.policy_version for t in of_step} == {max(step - 2, 4 * ((step - 1) // 4))}
        for version, there in weights.items():
            with torch.no_grad():
                for name, weight in trainable_weights(parts.policy.model).items():
                    weight.copy_(there[name])
            parts.policy.model.eval()
            for trajectory in (t for t in trajectories if t.policy_version == version):
                ours, theirs = sampled_logprobs(parts.policy.model, trajectory)
                assert theirs == pytest.approx(ours, abs=CLOSE)
        assert_nothing_twice(run)
        assert running(server.url) == 0
        assert len(served(server.url)) == 1
        engine = parts.policy.engine
        assert isinstance(engine, VllmEngine)
        assert (engine.restarts, engine.missed) == (0, 0)
        assert sum(cost.swaps for cost in run.reader.records(StageCost)) == engine.swaps == 7
    assert not any(thread.name == "coevolve-ahead" for thread in threading.enumerate())


def _patiently(engine: VllmEngine) -> float:
    """How many requests are in flight, once there are some."""
    for _ in range(400):
        if flights := len(engine._flights):
            return flights
        threading.Event().wait(0.005)
    return 0
