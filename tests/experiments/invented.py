"""Finished runs of a plan as they lie on disk, without the hours of making them: scores are drawn, not played."""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Mapping
from pathlib import Path

from coevolve_lab import environments
from coevolve_lab import records as r
from coevolve_lab.config import Config
from coevolve_lab.experiments.folders import mark_finished
from coevolve_lab.experiments.plan import Cell, Plan, world_name
from coevolve_lab.store import RunWriter

TOOLS = ("cd", "ls", "mv", "grep", "sort", "post_tweet")
STAGES = {"rollout": 20.0, "train": 14.0, "reflect": 1.0, "explore": 2.0, "abstract": 0.5, "validate": 1.5}
BEFORE = 0.3  # chance to solve a task before training
STEPS = 5  # training steps a round


def invent(
    plan: Plan, folder: Path, after: Mapping[str, float], missing: Collection[str] = (), rounds: int = 2
) -> None:
    """Every run of a plan but those with a key in ``missing``. after: chance to solve a task at the end, by arm."""
    tasks: dict[str, list[r.Task]] = {}
    for cell in plan.runs:
        if cell.key in missing:
            continue
        rng = random.Random(f"{cell.key}")
        with RunWriter.create(folder / cell.key, cell.config) as writer:
            for round in range(rounds + 1):
                chance = BEFORE + (after.get(cell.arm, BEFORE) - BEFORE) * round / rounds
                writer.append(_round(cell, round, chance, rng, tasks))
                if round == rounds:
                    writer.append(_last(cell, round, chance, rng, tasks))
                writer.commit(round)
        mark_finished(cell, folder)


def _round(cell: Cell, round: int, chance: float, rng: random.Random, tasks: dict[str, list[r.Task]]) -> list[object]:
    step = round * STEPS
    split = cell.config.environment.evaluation_split
    made: list[object] = [_evaluation(cell.config, split, round, step, chance, random.Random(rng.random()), tasks)]
    made += [_task(f"{round}-{i}", round, rng) for i in range(12)]
    if round == 0:
        return made
    for i in range(8):
        kind = rng.choice(("boundary", "boundary", "rare", "forgetting"))
        made.append(r.Signal(f"s{round}-{i}", kind, "t", "k", "g", round, step, 0.5))
        outcome, reason = rng.choice((("accepted", "ok"), ("accepted", "ok"), ("discarded", "duplicate")))
        made.append(r.Verdict(f"v{round}-{i}", f"d{round}-{i}", outcome, reason, round, similarity=rng.random()))  # type: ignore[arg-type]
    made += [r.StageCost(round, stage, seconds * rng.uniform(0.8, 1.2)) for stage, seconds in STAGES.items()]
    for n in range(step - STEPS + 1, step + 1):
        made.append(r.Update(n, round, n, chance, 0.0, 0.0, 0.0, 1.0, 0.0, 0.5, 1e-4, 16, 4, 3, 1, 128, 900, 400, 1.0))
    return made


def _last(cell: Cell, round: int, chance: float, rng: random.Random, tasks: dict[str, list[r.Task]]) -> list[object]:
    """The evaluations of other splits and other worlds at the end."""
    own = cell.config.environment.evaluation_split
    made: list[object] = [
        _evaluation(cell.config, split, round, round * STEPS, chance, rng, tasks)
        for split in cell.splits
        if split != own
    ]
    for column, config in cell.elsewhere:
        there = config.environment.evaluation_split
        made.append(
            _evaluation(
                config, there, round, round * STEPS, chance / 2, rng, tasks, f"{world_name(column, config)}:{there}"
            )
        )
    return made


def _task(name: str, round: int, rng: random.Random) -> r.Task:
    calls = tuple(f"{rng.choice(TOOLS)}(a={i})" for i in range(rng.randint(1, 3 + (round > 0))))
    origin = "feedback" if round else "seed"
    query = f"please {' and then '.join(calls)} in folder {rng.randint(0, 99)}"
    return r.Task(f"t{name}", "bfcl", (query,), {}, (calls,), origin=origin, round=round)  # type: ignore[arg-type]


def _evaluation(
    config: Config,
    split: str,
    round: int,
    step: int,
    chance: float,
    rng: random.Random,
    tasks: dict[str, list[r.Task]],
    recorded: str | None = None,
) -> r.Evaluation:
    """Drawn outcomes of the world's real tasks. Some tasks are easier than others, for every method alike."""
    key = f"{split}{json.dumps(config.environment.options, sort_keys=True)}"
    if key not in tasks:
        tasks[key] = environments.make(config.environment.name, **config.environment.arguments()).tasks(split)
    ease = {task.id: random.Random(task.id).uniform(-0.25, 0.25) for task in tasks[key]}
    outcomes = {task: float(rng.random() < chance + bonus) for task, bonus in ease.items()}
    score = sum(outcomes.values()) / len(outcomes)
    stderr = (score * (1 - score) / len(outcomes)) ** 0.5
    name = recorded or split
    return r.Evaluation(f"e{round}-{name}", name, round, round, step, score, stderr, len(outcomes), outcomes, 1.0)
