"""The LLM explorer against a real server with schema-guided replies, from a model that writes nothing of sense."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from coevolve_lab.config import EndpointConfig, EvolutionConfig, ExplorerConfig
from coevolve_lab.endpoint import Cassette, Endpoint, Limits, Reply, run_async
from coevolve_lab.endpoint.schema import problem
from coevolve_lab.evolution import LlmExplorer, Occasion
from coevolve_lab.evolution.llm.judge import SCHEMA as JUDGEMENT
from coevolve_lab.evolution.llm.reflection import SCHEMA as CONTEXT
from coevolve_lab.records import ExplorationContext, Signal, Step, Task, TaskDraft, Trajectory, Triplet
from tests.evolution.conftest import START
from tests.evolution.toy_world import ToyWorld
from tests.vllm.conftest import Served

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(600)]
ONE = Occasion(1)
USABLE = {"ok", "ungrounded"}  # the reply fitted its schema; what it says is another matter


def settings(server: Served, **more: object) -> ExplorerConfig:
    known = {"kind": "llm", "model": server.base_name, "base_url": f"{server.url}/v1", "api_key_env": "NO_SUCH_KEY"}
    return ExplorerConfig(**{**known, "retries": 1, "temperature": 1.0, "max_tokens": 512, **more})  # type: ignore[arg-type]


def test_replies_fit_their_schema(server: Served, tmp_path: Path) -> None:
    """Sampling is free only where the schema lets it: whoever finishes has written a valid object."""
    own = {name: getattr(settings(server), name) for name in EndpointConfig.model_fields}
    endpoint = Endpoint(
        {"reflect": EndpointConfig(**own)}, Limits(connections=8, retries=0), Cassette(tmp_path / "recording.jsonl")
    )
    ask = [{"role": "user", "content": "What do you see?"}]

    async def replies(schema: dict[str, Any], name: str) -> list[Reply]:
        return list(
            await asyncio.gather(*(endpoint.ask("reflect", f"{name}{i}", ask, schema=schema) for i in range(6)))
        )

    for schema in (CONTEXT, JUDGEMENT):
        found = run_async(replies(schema, str(len(schema["properties"]))))
        statuses = Counter(reply.status for reply in found)
        assert statuses["ok"] >= 1
        assert set(statuses) <= {"ok", "cut"}
        for reply in found:
            if reply.status == "ok":
                assert problem(json.loads(reply.text), schema) == ""


def test_whatever_the_model_writes_an_evolution_goes_through(server: Served, tmp_path: Path) -> None:
    world = ToyWorld()
    config = EvolutionConfig(explorer=settings(server), min_calls=1, rollouts_per_context=2, steps_per_rollout=2)
    explorer = LlmExplorer(world, config, tmp_path / "explorer")
    task = Task("task-r0-0", "toy", ("do it",), START, (("show(key='ant')",),), origin="seed")
    step = Step(0, "show(key='zebra_7')", "error: no such key", tools=("show",), failed=True)
    run = Trajectory("trajectory-0", task.id, "group-0", 7, 1, 10, 0.0, "completed", (step,))
    signals = [
        Signal(f"signal-{i}", kind, run.id, task.id, run.group_id, round=1, step=10, score=0.0)
        for i, kind in enumerate(("forgetting", "boundary", "rare", "rare"))
    ]
    contexts = explorer.reflect(signals, [run], [task], ONE)
    reflections = Counter(call.status for call in explorer.model_calls())
    assert sum(reflections[status] for status in USABLE) >= 1, reflections
    assert reflections["error"] == 0, reflections

    contexts.append(ExplorationContext("ctx-r1-9", "rare", 1, START))
    triplets = explorer.explore(contexts, ONE)
    works = [
        Triplet(f"t{i}", "ctx-r1-9", "explore-r1-0", i, f"add(counter='cat', amount={i})", "ok", False, 1, ("add",))
        for i in range(3)
    ]
    explorer.abstract([*triplets, *works], contexts, ONE)
    draft = TaskDraft("d", "ctx-r1-9", "explore-r1-0", "toy", ("sum up",), START, (("total()",),), 1, "feedback")
    (judgement,) = explorer.judge([draft], ONE, 30)
    assert (judgement.success is None) == judgement.reason.startswith("no answer: ")
    calls = explorer.model_calls()
    assert {call.role for call in calls} == {"explore", "abstract", "judge"}
    assert {call.status for call in calls} <= {"ok", "cut", "malformed", "ungrounded", "empty"}
    assert all(call.prompt_tokens and call.completion_tokens for call in calls)

    again = LlmExplorer(world, config, tmp_path / "explorer")
    again.reflect(signals, [run], [task], ONE)
    replayed = again.model_calls()
    assert {call.replayed for call in replayed} == {True}
    assert Counter(call.status for call in replayed) == reflections
