"""A run written straight to the store, with outcomes that a test chooses; BFCL-like in size, no model behind it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coevolve_lab import records as r
from coevolve_lab.config import load_config
from coevolve_lab.store import RunWriter

STEPS_PER_ROUND = 5
TASKS = [f"multi_turn_base_{i}" for i in range(40)]
KINDS = {"forgetting": 3, "boundary": 30, "rare": 12}


def write_rounds(
    run_dir: Path,
    rounds: Sequence[int],
    skill: float,
    *,
    split: str = "test",
    tasks: Sequence[str] = TASKS,
    **changes: Any,
) -> Path:
    """Go on with the run at ``run_dir``, or begin it; the higher ``skill``, the more tasks are solved at the end.

    Tasks have a difficulty, so that runs tend to solve the same ones. changes: of the config, for a run that begins.
    """
    rng = random.Random(f"{run_dir.name} {skill}")
    new = not (run_dir / "config.json").exists()
    with RunWriter.create(run_dir, load_config({}, **changes)) if new else RunWriter.open(run_dir) as writer:
        for round in rounds:
            writer.append(_round(rng, round, skill, split, tasks))
            writer.commit(round)
    return run_dir


def _round(rng: random.Random, round: int, skill: float, split: str, tasks: Sequence[str]) -> list[Any]:
    step = STEPS_PER_ROUND * round
    level = 0.3 + skill * round
    made: list[Any] = [
        r.Task(f"task-{round}-{i}", "bfcl", ("q",), {}, origin="feedback" if round else "seed", round=round)
        for i in range(10 if round else 50)
    ]
    for i in range(STEPS_PER_ROUND if round else 0):
        reward = level + rng.uniform(-0.1, 0.1)
        made.append(
            r.Update(
                step - STEPS_PER_ROUND + i + 1, round, step, reward, 0.0, 0.001, 0.0, 1.0, 0.0, 0.5, 1e-4, 16,
                rng.randint(2, 6), rng.randint(1, 4), 0, 128, 5000, 2500, rng.uniform(1, 2),
            )
        )  # fmt: skip
    for kind, mean in KINDS.items():
        for i in range(rng.randint(mean // 2, mean) if round else 0):
            made.append(r.Signal(f"{kind}-{round}-{i}", kind, "t", "task", "g", round, step, 0.5))
    outcomes = {task: float((7 * i % 40) / 40 + rng.uniform(-0.2, 0.2) < level) for i, task in enumerate(tasks)}
    score = sum(outcomes.values()) / len(outcomes)
    made.append(
        r.Evaluation(f"eval-{split}-v{step}-0", split, step, round, step, score, 0.07, len(outcomes), outcomes, 1.0)
    )
    for task, solved in outcomes.items():
        steps = (r.Step(0, "", "", ("cd", "grep" if solved else "ls", "mv")),)
        made.append(
            r.Trajectory(
                f"{task}-{step}", task, task, step, round, step, solved, "completed", steps, purpose="evaluate"
            )
        )
    made.append(r.StageCost(round, "rollout", rng.uniform(20, 40)))
    return made
