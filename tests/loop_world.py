"""A whole run at the smallest size: the toy world as a registered environment, and a config that a second can run.

BFCL needs minutes of warm start before groups differ within themselves; here a policy of 30,000 parameters learns
enough in seconds for gradients, boundary groups and forgetting to occur.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from coevolve_lab import CoEvolve
from coevolve_lab.environments import register_environment
from coevolve_lab.records import Task
from tests.evolution.toy_world import ToySession, ToyWorld

CONFIG: dict[str, Any] = {
    "name": "loop-test",
    "rounds": 2,
    "threads": 1,
    "environment": {"name": "loop-toy", "max_steps": 4, "max_observation_chars": 40},
    "policy": {
        "model": "tiny",
        "dtype": "float32",
        "device": "cpu",
        "call_syntax": "python",
        "tiny": {"hidden": 48, "layers": 2, "heads": 2, "feed_forward": 96, "vocabulary": 400},
        "warm_start": {
            "steps": 250, "batch": 32, "demonstrations": 1500, "learning_rate": 6e-3, "max_calls": 1, "drills": 0.0,
        },
    },
    "rollout": {
        "temperature": 1.0, "group_size": 4, "tasks_per_step": 4, "revisit_share": 0.5,
        "max_action_tokens": 24, "max_response_tokens": 60,
    },
    "training": {"steps_per_round": 2, "learning_rate": 1e-3, "tokens_per_microbatch": 512},
    "signals": {"rare": {"theta": 20, "n_min": 5, "pattern": "tool", "min_trajectories": 1}},
    "evolution": {
        "initial_tasks": 12, "contexts_per_round": 6, "tasks_per_round": 4, "rollouts_per_context": 1,
        "steps_per_rollout": 2, "min_calls": 1, "max_calls": 1,
    },
}  # fmt: skip


class CallListSession(ToySession):
    """Reads ``[call]`` as the tiny policy writes it."""

    def step(self, action: str) -> tuple[str, bool]:
        return super().step(action.strip().removeprefix("[").removesuffix("]"))


class LoopToy(ToyWorld):
    """ToyWorld with what demonstrations need beside sessions."""

    def __init__(self, size: int = 6, max_observation_chars: int = 40) -> None:
        super().__init__(size)
        self.max_observation_chars = max_observation_chars

    def open(self, task: Task) -> CallListSession:
        return CallListSession(task)

    def confusable(self, tool: str) -> Sequence[str]:
        return ()


register_environment("loop-toy", LoopToy)


@pytest.fixture(scope="module")
def warm_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One cache of warm starts for the whole session: the policy is warmed up once, in about five seconds."""
    folder = tmp_path_factory.getbasetemp() / "warm-starts"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COEVOLVE_CACHE", str(folder))
        yield folder


def new_run(run_dir: Path, **overrides: Any) -> CoEvolve:
    """A run of CONFIG; seed 2 has groups that differ within themselves from the first step on."""
    return CoEvolve(CONFIG, run_dir, progress=False, **{"seed": 2, **overrides})


def rows(run: CoEvolve) -> dict[str, list[dict[str, Any]]]:
    """All records by table, without what a clock measured. ``assemble`` is left out: it happens once a process."""
    tables = {}
    for name in run.reader.table_names:
        found = run.reader.table(name).to_dicts()
        tables[name] = [{k: v for k, v in row.items() if k != "seconds"} for row in found]
    tables["stage_costs"] = [row for row in tables["stage_costs"] if row["stage"] != "assemble"]
    return tables


def assert_nothing_twice(run: CoEvolve) -> None:
    """Every id of every table occurs once."""
    keys = {"steps": "trajectory_id || '/' || index", "updates": "step", "stage_costs": None}
    for name in run.reader.table_names:
        key = keys.get(name, "id")
        if key is not None:
            twice = run.sql(f"select {key} as key, count(*) as n from {name} group by all having n > 1")
            assert twice.is_empty(), f"{name}: {twice.rows()}"
