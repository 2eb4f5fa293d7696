"""The 200 cases of BFCL's multi-turn base category as tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from coevolve_lab.environments.bfcl import package
from coevolve_lab.records import Task

_CATEGORY = "multi_turn_base"
_PREFIX = "bfcl_"
_START_KEYS = ("involved_classes", "initial_config", "excluded_function")


@cache
def benchmark_tasks() -> tuple[Task, ...]:
    """All cases in the benchmark's order. Task ids end with the benchmark's own: ``bfcl_multi_turn_base_17``."""
    data = package.activate()
    file = f"BFCL_v4_{_CATEGORY}.json"
    answers = {row["id"]: row["ground_truth"] for row in _rows(data / "possible_answer" / file)}
    return tuple(_task(case, answers[case["id"]]) for case in _rows(data / file))


@cache
def known_defects() -> Mapping[str, Mapping[str, str]]:
    """Cases that cannot be passed honestly, by task id: the text that the solution wants and nobody gives, and why.

    Found by looking for solution arguments that occur neither in the user's messages nor in any earlier result, and
    reading those cases; a lower bound. Gorilla issue #1367 reports some of them.
    """
    rows = json.loads((Path(__file__).parent / "known_defects.json").read_text(encoding="utf-8"))
    return {_PREFIX + case: row for case, row in rows.items()}


def official_id(task: Task) -> str:
    """The benchmark's own id of a benchmark task."""
    return task.id.removeprefix(_PREFIX)


def _task(case: Mapping[str, Any], answer: list[list[str]]) -> Task:
    return Task(
        id=_PREFIX + case["id"],
        environment="bfcl",
        turns=tuple("\n".join(message["content"] for message in turn) for turn in case["question"]),
        start={key: case[key] for key in _START_KEYS if key in case},
        solution=tuple(tuple(turn) for turn in answer),
        split="test",
    )


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
