"""ReST, reinforced self-training (Gulcehre et al. 2023, arXiv:2308.08998): grow a data set, then imitate its best part.

A round is one grow step and several improve steps. *Grow*: K trajectories of each sampled task from the policy as the
round found it. *Improve*: fine-tuning by plain log-likelihood on the trajectories whose reward is above a threshold,
in several passes over the same data, the threshold rising from pass to pass; ``run.imitate`` takes each step.

Budget: exactly GRPO's number of sampled trajectories (``steps_per_round`` x ``tasks_per_step`` x K a round, tasks
chosen as GRPO's are) and of updates (``steps_per_round`` a round). What differs besides the loss: all of a round's
trajectories come from one policy version, and each that is good enough is trained on once a pass, so up to three times.

Differs from the publication: the optimizer and its constant learning rate are those of the run's other methods, where
ReST lowers the rate with every improve step; each round grows a data set of its own. With rewards of 0 and 1 alone all
thresholds choose the same trajectories. What CoEvolve's table 10 used of this (thresholds, passes, sizes) is
unpublished.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from coevolve_lab.methods.base import Method, evaluate_if_due, play_rounds
from coevolve_lab.policy.rollout import stable_seed
from coevolve_lab.records import Trajectory

if TYPE_CHECKING:
    from coevolve_lab.loop import CoEvolve

THRESHOLDS = (0.0, 0.5, 0.9)  # of the improve passes: a trajectory is imitated when its score is above


def improve_steps(grown: Sequence[Trajectory], updates: int, seed: int) -> list[tuple[float, list[Trajectory]]]:
    """(threshold, batch) of each of ``updates`` improve steps, the same for the same arguments.

    The steps are shared out among the passes, the later ones getting no fewer; with fewer steps than passes the highest
    thresholds remain. The steps of a pass share out all groups between them, each group whole, in an order of the
    pass's own.
    """
    groups: dict[str, list[Trajectory]] = {}
    for trajectory in grown:
        groups.setdefault(trajectory.group_id, []).append(trajectory)
    passes = [-(-(step + 1) * len(THRESHOLDS) // updates) - 1 for step in range(updates)]
    steps: list[tuple[float, list[Trajectory]]] = []
    for number in sorted(set(passes)):
        order = list(groups)
        random.Random(f"improve/{seed}/{number}").shuffle(order)
        size = passes.count(number)
        steps += [
            (THRESHOLDS[number], [t for group in order[part::size] for t in groups[group]]) for part in range(size)
        ]
    return steps


def _grow_and_improve(run: CoEvolve) -> None:
    updates = run.config.training.steps_per_round
    grown: list[Trajectory] = []
    for _ in range(updates):
        batch = run.rollout()
        run.find_signals(batch)
        grown += batch
    seed = stable_seed(run.config.seed, "improve", run.round_in_progress)
    for threshold, part in improve_steps(grown, updates, seed):
        run.imitate(part, above=threshold)
    evaluate_if_due(run)


def rounds(run: CoEvolve) -> None:
    """Rounds of grow and improve on the run's D_0."""
    play_rounds(run, _grow_and_improve)


REST = Method(
    "rest",
    "ReST",
    "Gulcehre et al. 2023, Reinforced Self-Training (ReST) for Language Modeling, arXiv:2308.08998",
    {"evolution": {"mode": "none"}},
    rounds,
)
