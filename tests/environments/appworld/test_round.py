"""A whole co-evolution round in the mini world: every stage with real programs, and D_t grows by executed tasks.

The policy that is trained is the tiny model, which hardly ever writes a program that works. So that groups differ
within themselves, a scripted stand-in acts in its place: it knows the solutions. What is trained is the tiny model all
the same, on the stand-in's ids, at its own log-probabilities of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from coevolve_lab import CoEvolve
from coevolve_lab.config import load_config
from coevolve_lab.environments.appworld.package import AppWorldPackage
from coevolve_lab.environments.appworld.scoring import Scorer
from coevolve_lab.environments.appworld.workers import WorkerPool
from coevolve_lab.policy.engine import Completion, Request
from coevolve_lab.policy.policy import Policy
from coevolve_lab.records import Task
from tests.environments.appworld.worlds import mini_world

pytestmark = [pytest.mark.appworld, pytest.mark.slow]
CONFIG = Path(__file__).parents[3] / "configs" / "appworld-mini.yaml"
SMALL: dict[str, Any] = {
    "environment": {"options": {"workers": 1, "apps": ["simple_note", "todoist"], "explore_starts": 1}},
    "policy": {
        "tiny": {"hidden": 32, "layers": 1, "heads": 2, "feed_forward": 64},
        "warm_start": {"steps": 20, "batch": 4, "demonstrations": 4},
    },
    "rollout": {"group_size": 2, "tasks_per_step": 1, "max_action_tokens": 600, "max_response_tokens": 1200},
    "training": {"steps_per_round": 1},
    "signals": {"rare": None},
    "evolution": {"initial_tasks": 1, "contexts_per_round": 2, "tasks_per_round": 2, "steps_per_rollout": 3},
}


class ScriptedStandIn:
    """An engine that knows the solutions: the even episodes of a group play theirs, the odd ones give up."""

    def __init__(self, policy: Policy, tasks: Sequence[Task]) -> None:
        self.policy_version = policy.engine.policy_version
        self._policy = policy
        self._solutions = {task.turns[0]: [*task.solution[0], "done"] for task in tasks}
        self._plans: dict[str, list[str]] = {}

    def generate(self, requests: Sequence[Request], temperature: float, seed: int) -> list[Completion]:
        return [self._act(request, temperature) for request in requests]

    def release(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._plans.pop(key, None)

    def _act(self, request: Request, temperature: float) -> Completion:
        chat, model = self._policy.chat, self._policy.model
        if request.key not in self._plans:
            asked = chat.text(request.ids)
            plan = next((plan for turn, plan in self._solutions.items() if turn in asked), ["done"])
            self._plans[request.key] = list(plan) if int(request.key.rsplit("-", 1)[1]) % 2 == 0 else ["done"]
        ids = chat.action(self._plans[request.key].pop(0))
        with torch.inference_mode():
            logits = model(torch.tensor([[*request.ids, *ids]])).logits[0, len(request.ids) - 1 : -1]
            logprobs = (logits / temperature).log_softmax(-1).gather(1, torch.tensor(ids)[:, None])[:, 0]
        return Completion(tuple(ids), tuple(logprobs.tolist()), finished=True)


@pytest.mark.timeout(900)  # some fifty worlds, a second of CPU each
def test_a_whole_round_in_the_mini_world(
    appworld: AppWorldPackage, pool: WorkerPool, scorer: Scorer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = mini_world(appworld, pool, scorer)  # the run's own environment shares its server
    monkeypatch.setenv("COEVOLVE_CACHE", str(tmp_path / "cache"))
    config = load_config(CONFIG, **SMALL)
    run = CoEvolve(config, tmp_path / "run", progress=False)
    try:
        seeds = run.seed_tasks()
        assert len(seeds) == 1
        assert all(task.explorer == "scripted" and task.start["world"] == kept.world for task in seeds)

        policy = run._ready().policy
        policy.engine = ScriptedStandIn(policy, seeds)
        batch = run.rollout()
        assert [(t.status, t.score) for t in batch] == [("completed", 1.0), ("completed", 0.0)]
        update = run.train(batch)
        assert (update.groups, update.groups_dropped) == (1, 0)
        assert update.trained_tokens > 0
        assert update.gap_largest < 1e-3  # nats: the ids were trained at the log-probabilities that they had
        assert update.gradient_norm > 0
        signals = run.find_signals(batch)
        assert {signal.kind for signal in signals} == {"boundary"}

        contexts = run.reflect(signals)
        assert {context.kind for context in contexts} & {"boundary"}
        triplets = run.explore(contexts)
        assert any("." in tool for triplet in triplets for tool in triplet.tools)
        verdicts = run.validate(run.abstract(triplets))
        added = run.append(verdicts)
        assert added
        assert {verdict.reason for verdict in verdicts if verdict.outcome == "accepted"} == {"solved"}
        run.commit()
        assert [task.id for task in run.task_set] == [task.id for task in [*seeds, *added]]
        counted = run.sql("select count(*) from tasks").item()
        assert counted == len(seeds) + len(added)
    finally:
        run.close()
