"""Curriculum learning (Bengio et al. 2009, Curriculum Learning, ICML): the static D_0, easy tasks first.

Difficulty is measured, not guessed: K trajectories of every task of D_0 from the untrained policy, at the training
temperature, and the share of them that solves it. The pass is on record as an evaluation of the split ``SPLIT`` with
its trajectories, and comes on top of GRPO's budget (N x K trajectories, once). Training is GRPO; round by round its
batches are drawn from more of the list: from the easiest quarter in the first round to all of D_0 in the last.

CoEvolve's table 10 has a row of this name and publishes nothing but its scores: how difficulty was measured, in what
steps the pool grew, and whether batches were only ordered or also restricted are all choices made here.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from coevolve_lab.evaluation.metrics import pass_rate
from coevolve_lab.evolution import TaskSet
from coevolve_lab.methods.base import Method, evaluate_if_due, play_rounds
from coevolve_lab.policy.rollout import play, stable_seed
from coevolve_lab.records import Evaluation, Task

if TYPE_CHECKING:
    from coevolve_lab.loop import CoEvolve

SPLIT = "difficulty"  # of the recorded pass over D_0; outcomes are solve rates
EASIEST = 0.25  # share of D_0 in the first round


def easiest_first(tasks: Sequence[Task], solve_rates: Mapping[str, float]) -> list[Task]:
    """Tasks from the highest solve rate to the lowest; of equal ones those with fewer calls, then the older ones.

    A task that came after the pass counts as one that was never solved.
    """
    return sorted(tasks, key=lambda task: (-solve_rates.get(task.id, 0.0), sum(map(len, task.solution))))


def pool_size(tasks: int, round: int, rounds: int, batch: int) -> int:
    """How many of ``tasks`` are in the pool of a round (1, 2, ..., ``rounds``): grows linearly from ``EASIEST`` to all.

    Never fewer than fill a batch, since a task that occurs twice in one adds little.
    """
    done = 1.0 if rounds == 1 else (round - 1) / (rounds - 1)
    share = EASIEST + (1 - EASIEST) * done
    return min(tasks, max(batch, math.ceil(share * tasks)))


def measure_difficulty(run: CoEvolve) -> Evaluation:
    """The recorded pass of the untrained policy over D_0, made now if there is none: before the first update."""
    if found := run.reader.records(Evaluation, f"split = '{SPLIT}'"):
        return found[-1]
    parts, config = run.parts, run.config
    tasks = run.task_set
    size = config.rollout.group_size
    started = time.monotonic()
    with run.own_stage("evaluate") as work:
        trajectories = play(
            parts.environment,
            tasks,
            parts.policy.engine,
            parts.policy.chat,
            config.rollout,
            group_size=size,
            temperature=config.rollout.temperature,
            max_steps=config.environment.max_steps,
            seed=stable_seed(config.seed, SPLIT),
            label=SPLIT,
            round=run.round_in_progress,
            step=parts.step,
            purpose="evaluate",
        )
        solved = dict.fromkeys((task.id for task in tasks), 0)
        for trajectory in trajectories:
            solved[trajectory.task_id] += trajectory.score >= 1.0
        rates = {task: count / size for task, count in solved.items()}
        score, stderr = pass_rate(rates.values())
        evaluation = Evaluation(
            id=f"eval-{SPLIT}-v{parts.policy.version}-0",
            split=SPLIT,
            policy_version=parts.policy.version,
            round=run.round_in_progress,
            step=parts.step,
            score=score,
            stderr=stderr,
            tasks=len(tasks),
            outcomes=rates,
            seconds=time.monotonic() - started,
            detail={"samples_per_task": float(size)},
        )
        work.items, work.tokens = len(trajectories), sum(len(s.token_ids) for t in trajectories for s in t.steps)
        work.records = [evaluation, *trajectories]
    return evaluation


def _train_on_the_pool(run: CoEvolve) -> None:
    config, parts = run.config, run.parts
    order = easiest_first(run.task_set, measure_difficulty(run).outcomes)
    batch = config.rollout.tasks_per_step
    pool = TaskSet(order[: pool_size(len(order), run.round_in_progress, config.rounds, batch)])
    for _ in range(config.training.steps_per_round):
        seed = stable_seed(config.seed, "tasks", run.step + 1, 0)
        tasks = pool.sample(batch, seed, parts.visits, config.rollout.revisit_share)
        trajectories = run.rollout(tasks)
        run.train(trajectories)
        run.find_signals(trajectories)
    evaluate_if_due(run)


def rounds(run: CoEvolve) -> None:
    """Rounds of GRPO on a pool that grows from the easiest tasks of D_0 to all."""
    play_rounds(run, _train_on_the_pool)


CURRICULUM_LEARNING = Method(
    "curriculum_learning",
    "Curriculum learning",
    "Bengio et al. 2009, Curriculum Learning (ICML); our choice of difficulty and pace",
    {"evolution": {"mode": "none"}},
    rounds,
)
