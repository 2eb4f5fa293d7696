"""Plays a split with one policy version, greedily by default, and sums it up (section 4: temperature 0)."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Collection, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from coevolve_lab.config import Config
from coevolve_lab.environments.base import Environment
from coevolve_lab.errors import PolicyError
from coevolve_lab.evaluation.metrics import pass_rate
from coevolve_lab.policy.rollout import play, stable_seed
from coevolve_lab.records import Evaluation, Task, Trajectory

if TYPE_CHECKING:
    from coevolve_lab.policy.policy import Policy


def evaluate_split(
    environment: Environment,
    tasks: Sequence[Task],
    policy: Policy,
    config: Config,
    *,
    split: str,
    round: int,
    step: int,
    name: str,
    temperature: float = 0.0,
    defects: Collection[str] = (),
    progress: Callable[[int], None] | None = None,
) -> tuple[Evaluation, list[Trajectory]]:
    """One trajectory a task and their mean score. A task counts as solved only with the full score of 1.

    defects: ids of tasks known to be unsolvable; the score without them is given as detail "without_known_defects".

    Episodes in which the engine failed are played once more. Raises PolicyError when it fails again: what was not
    played has no score, and 0 would pass for one. Where the environment failed the score is 0, which is warned about
    and counted as detail "env_errors".
    """

    def played(some: Sequence[Task], label: str, progress: Callable[[int], None] | None) -> list[Trajectory]:
        return play(
            environment,
            some,
            policy.engine,
            policy.chat,
            config.rollout,
            group_size=1,
            temperature=temperature,
            max_steps=config.environment.max_steps,
            seed=stable_seed(config.seed, "evaluate", split, step),
            label=label,
            round=round,
            step=step,
            purpose="evaluate",
            progress=progress,
        )

    started = time.monotonic()
    trajectories = played(tasks, name, progress)
    if broken := [i for i, t in enumerate(trajectories) if t.status == "engine_error"]:
        for i, again in zip(broken, played([tasks[i] for i in broken], f"{name}-again", None), strict=True):
            trajectories[i] = again
    if failed := [t for t in trajectories if t.status == "engine_error"]:
        raise PolicyError(
            f"{name}: in {len(failed)} of {len(tasks)} episodes the policy engine failed ({failed[0].detail}): there "
            "is no score; called again, it is played anew"
        )
    if failed := [t for t in trajectories if t.status == "env_error"]:
        warnings.warn(
            f"{name}: in {len(failed)} of {len(tasks)} episodes the environment failed ({failed[0].detail}): "
            "they count as not solved",
            stacklevel=2,
        )
    seconds = time.monotonic() - started
    evaluation = summary(
        trajectories,
        name=name,
        split=split,
        policy_version=policy.version,
        round=round,
        step=step,
        defects=defects,
        seconds=seconds,
    )
    return evaluation, trajectories


def summary(
    trajectories: Sequence[Trajectory],
    *,
    name: str,
    split: str,
    policy_version: int = 0,
    round: int = 0,
    step: int = 0,
    defects: Collection[str] = (),
    seconds: float = 0.0,
) -> Evaluation:
    """What one trajectory a task adds up to; see ``evaluate_split``."""
    outcomes = {t.task_id: float(t.score >= 1.0) for t in trajectories}
    score, stderr = pass_rate(outcomes.values())
    detail = {"partial_score": fmean(t.score for t in trajectories)}
    if env_errors := sum(t.status == "env_error" for t in trajectories):
        detail["env_errors"] = float(env_errors)
    sound = [value for task, value in outcomes.items() if task not in defects]
    if 0 < len(sound) < len(outcomes):
        detail["without_known_defects"] = fmean(sound)
    return Evaluation(
        id=name,
        split=split,
        policy_version=policy_version,
        round=round,
        step=step,
        score=score,
        stderr=stderr,
        tasks=len(outcomes),
        outcomes=outcomes,
        seconds=seconds,
        detail=detail,
    )
