"""An LLM explorer in the mini world: a fake endpoint plays the model, its programs are run for real."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coevolve_lab.config import EvolutionConfig
from coevolve_lab.environments.appworld.package import AppWorldPackage
from coevolve_lab.environments.appworld.scoring import Scorer
from coevolve_lab.environments.appworld.workers import WorkerPool
from coevolve_lab.evolution import Guard, Occasion, StartPool, make_explorer, unguided_contexts, validate_drafts
from tests.environments.appworld.test_environment import noted
from tests.environments.appworld.worlds import mini_world
from tests.evolution.llm.fake_llm import FakeLlm, proposal
from tests.fake_endpoint import MODEL, Answer, FakeEndpoint, says, says_json

pytestmark = pytest.mark.appworld
PLAN = ("print(apis.supervisor.show_profile())", f"execute_code(code={noted()!r})", "STOP")


def explore(request: dict[str, Any]) -> Answer:
    """A program in a block, a call of the one tool, then nothing more."""
    assert "execute_code(code: string)" in str(request["messages"])
    assert "apis.api_docs" in str(request["messages"])
    made = sum(message["role"] == "assistant" for message in request["messages"])
    return says(f"I go on.\n```python\n{PLAN[made]}\n```")


def abstract(request: dict[str, Any]) -> Answer:
    return says_json({"tasks": [proposal(1, [2], "Please write down that I need two bottles, as a note called Milk.")]})


def test_its_programs_become_a_task_that_is_validated_by_execution(
    appworld: AppWorldPackage, pool: WorkerPool, scorer: Scorer, tmp_path: Path
) -> None:
    world = mini_world(appworld, pool, scorer)
    with FakeEndpoint(FakeLlm({"explore": explore, "abstract": abstract})) as endpoint:
        settings = {"kind": "llm", "model": MODEL, "base_url": endpoint.url, "retries": 0}
        config = EvolutionConfig(explorer=settings, min_calls=1, rollouts_per_context=1, draft_seconds=200)  # type: ignore[arg-type]
        explorer = make_explorer("llm", world, config, tmp_path)
        contexts = unguided_contexts("seed", 1, StartPool(world), Occasion(0), explorer.name)
        triplets = explorer.explore(contexts, Occasion(0))
        assert [(t.failed, t.tools[-1]) for t in triplets] == [
            (False, "supervisor.show_profile"),
            (False, "simple_note.create_note"),
        ]
        (draft,) = explorer.abstract(triplets, contexts, Occasion(0))
    guard = Guard.from_config(config, world.tasks("test_normal"))
    (verdict,) = validate_drafts([draft], world, guard, [], Occasion(0), seconds=config.draft_seconds)
    assert (verdict.outcome, verdict.reason) == ("accepted", "solved")
