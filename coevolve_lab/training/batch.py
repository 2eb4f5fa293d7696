"""Which trajectories of a batch are trained on: groups checked for size and variance before any forward pass.

``select`` is GRPO's choice, ``worth_imitating`` that of filtered imitation (ReST).

Design rule 1: a bad rollout is data. Trajectories that the agent itself spoiled (out of steps, tokens or time, or not
to be parsed) stay with the score they got; those that the environment or the engine broke leave their group, and the
group, now partial, is dropped or refused as the config says. Design rule 3: a group whose scores are all equal has no
advantage and is left out, and counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from coevolve_lab.errors import PolicyError
from coevolve_lab.records import NOT_THE_AGENT, Trajectory

# A group of equal scores below this counts as all failed, else as all solved.
_SOLVED = 0.5


@dataclass(frozen=True)
class Batch:
    """trained: trajectories of the groups that carry a gradient, group by group. groups: number of groups of each fate.

    reward: mean score of all trajectories that the agent is responsible for. action_tokens: all that were sampled.
    """

    trained: tuple[Trajectory, ...]
    groups: int
    trained_groups: int
    all_failed: int
    all_solved: int
    dropped: int
    reward: float
    action_tokens: int


def select(trajectories: Iterable[Trajectory], group_size: int, on_partial_group: str = "drop") -> Batch:
    """Sort a batch into groups by group_id and decide each group's fate.

    A group must hold exactly ``group_size`` usable trajectories with different ids. Otherwise it is dropped, or with
    on_partial_group "fail" PolicyError is raised.
    """
    given = list(trajectories)
    groups: dict[str, list[Trajectory]] = {}
    for trajectory in given:
        groups.setdefault(trajectory.group_id, []).append(trajectory)
    trained: list[Trajectory] = []
    fates = {"trained": 0, "failed": 0, "solved": 0, "dropped": 0}
    for group_id, members in groups.items():
        usable = [t for t in members if t.status not in NOT_THE_AGENT]
        fate = _fate(usable, group_size)
        if fate == "dropped" and on_partial_group == "fail":
            raise PolicyError(
                f"group {group_id} has {len({t.id for t in usable})} usable trajectories, not {group_size} "
                f"({len(members) - len(usable)} broken by the environment or the engine); roll the group out again, "
                "or set training.on_partial_group to 'drop'"
            )
        fates[fate] += 1
        if fate == "trained":
            trained += usable
    scores = [t.score for t in given if t.status not in NOT_THE_AGENT]
    return Batch(
        trained=tuple(trained),
        groups=len(groups),
        trained_groups=fates["trained"],
        all_failed=fates["failed"],
        all_solved=fates["solved"],
        dropped=fates["dropped"],
        reward=fmean(scores) if scores else 0.0,
        action_tokens=sum(len(step.token_ids) for t in given for step in t.steps),
    )


def worth_imitating(trajectories: Iterable[Trajectory], above: float) -> Batch:
    """The usable trajectories with a score greater than ``above`` and an action, as a batch to be imitated.

    A group of which some are counts as trained, one of which none is as all failed, one without a usable trajectory as
    dropped; a group that is all solved has as much to imitate as any.
    """
    given = list(trajectories)
    usable = [t for t in given if t.status not in NOT_THE_AGENT]
    trained = [t for t in usable if t.score > above and any(step.token_ids for step in t.steps)]
    groups, seen, taught = ({t.group_id for t in some} for some in (given, usable, trained))
    return Batch(
        trained=tuple(trained),
        groups=len(groups),
        trained_groups=len(taught),
        all_failed=len(seen - taught),
        all_solved=0,
        dropped=len(groups - seen),
        reward=fmean(t.score for t in usable) if usable else 0.0,
        action_tokens=sum(len(step.token_ids) for t in given for step in t.steps),
    )


def _fate(usable: Sequence[Trajectory], group_size: int) -> str:
    if len(usable) != group_size or len({t.id for t in usable}) != group_size:
        return "dropped"
    scores = {t.score for t in usable}
    if len(scores) > 1:
        return "trained" if any(step.token_ids for t in usable for step in t.steps) else "dropped"
    return "solved" if scores.pop() >= _SOLVED else "failed"
