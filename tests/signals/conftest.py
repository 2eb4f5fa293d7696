from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from coevolve_lab.records import Step, Trajectory


@pytest.fixture
def visit() -> Callable[..., list[Trajectory]]:
    """visit(step, task, scores, tools): the group of one task in one training step."""

    def make(
        step: int, task: str, scores: Sequence[float], tools: Sequence[Sequence[str]] | None = None, **changes: Any
    ) -> list[Trajectory]:
        calls = tools if tools is not None else [()] * len(scores)
        return [
            Trajectory(**({
                "id": f"s{step}-{task}-{k}", "task_id": task, "group_id": f"s{step}-{task}", "policy_version": step,
                "round": 0, "step": step, "score": score, "status": "completed",
                "steps": tuple(Step(0, name, "", tools=(name,)) for name in names),
            } | changes))  # type: ignore[arg-type]
            for k, (score, names) in enumerate(zip(scores, calls, strict=True))
        ]  # fmt: skip

    return make
