"""The chain from a weakness to the task that it led to, and back (design rule 6), a page at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coevolve_lab.store import RunReader, quoted

MOST_MEMBERS, MOST_CONTEXTS, MOST_TRIPLETS, MOST_DRAFTS, MOST_VISITS = 32, 12, 120, 40, 400


def signal(reader: RunReader, signal_id: str) -> dict[str, Any] | None:
    return _one(reader, f"select * from signals where id = {quoted(signal_id)} limit 1")


def group(reader: RunReader, group_id: str, round: int) -> list[dict[str, Any]]:
    """Members of a GRPO group, best first: id, score, status, n_steps, and their steps.

    round: of the group, so that only that round's parts are read.
    """
    members = reader.sql(
        "select id, score, status, n_steps from trajectories "
        f"where round = {int(round)} and group_id = {quoted(group_id)} order by score desc, id limit {MOST_MEMBERS}"
    ).to_dicts()
    if not members:
        return []
    names = ", ".join(quoted(member["id"]) for member in members)
    steps = reader.sql(
        'select trajectory_id, turn, "index", action, observation, tools, failed from steps '
        f'where round = {int(round)} and trajectory_id in ({names}) order by trajectory_id, "index" limit 2000'
    ).to_dicts()
    for member in members:
        member["steps"] = [step for step in steps if step["trajectory_id"] == member["id"]]
    return members


def parting(members: Sequence[dict[str, Any]], trajectory_id: str) -> tuple[dict[str, Any] | None, int]:
    """The member of the other outcome that goes along with a trajectory for longest, and the step where they part.

    Members that solved the task (score 1) are one side, all others the other; (None, 0) when one side is empty. The
    step is the index of the first action that differs, or the length of the shorter one when it never does.
    """
    own = next((member for member in members if member["id"] == trajectory_id), None)
    if own is None:
        return None, 0
    others = [member for member in members if (member["score"] >= 1) != (own["score"] >= 1)]
    if not others:
        return None, 0
    together = [_together(own, other) for other in others]
    best = max(range(len(others)), key=lambda i: together[i])
    return others[best], together[best]


def contexts(reader: RunReader, signal_id: str) -> list[dict[str, Any]]:
    """Exploration contexts that reflection made of a signal; often none: only some signals are reflected on."""
    return reader.sql(
        f"select * from contexts where signal_id = {quoted(signal_id)} order by id limit {MOST_CONTEXTS}"
    ).to_dicts()


def context(reader: RunReader, context_id: str) -> dict[str, Any] | None:
    return _one(reader, f"select * from contexts where id = {quoted(context_id)} limit 1")


def triplets(reader: RunReader, context_id: str, round: int) -> list[dict[str, Any]]:
    """Exploration steps of a context: rollout_id, index, action, observation, failed, tools."""
    return reader.sql(
        'select rollout_id, "index", action, observation, failed, tools from triplets '
        f"where round = {int(round)} and context_id = {quoted(context_id)} "
        f'order by rollout_id, "index" limit {MOST_TRIPLETS}'
    ).to_dicts()


def tasks_of(reader: RunReader, context_id: str, round: int) -> list[str]:
    """Ids of the tasks that came of a context."""
    found = reader.sql(
        "select id from tasks where draft_id in (select id from drafts "
        f"where round = {int(round)} and context_id = {quoted(context_id)}) order by draft_id limit {MOST_DRAFTS}"
    )
    return [str(name) for name in found["id"]]


def drafts(reader: RunReader, context_id: str, round: int) -> list[dict[str, Any]]:
    """Drafts of a context, each with its verdict (outcome None: not validated) and the task it became (or None)."""
    return reader.sql(
        "select d.id, d.rollout_id, d.turns, d.solution, d.origin, v.outcome, v.reason, v.detail, v.score, "
        "v.similarity, t.id as task_id from drafts d left join verdicts v on v.draft_id = d.id "
        f"left join tasks t on t.draft_id = d.id where d.round = {int(round)} "
        f"and d.context_id = {quoted(context_id)} order by d.id limit {MOST_DRAFTS}"
    ).to_dicts()


def visits(reader: RunReader, task_id: str) -> list[dict[str, Any]]:
    """How the policy fared on a task, one row a visit: step, round, members, solved (share), score (mean)."""
    return reader.sql(
        "select step, min(round) as round, count(*) as members, avg((score >= 1)::int) as solved, avg(score) as score, "
        "arg_max(id, score) as best, arg_min(id, score) as worst from trajectories "
        f"where task_id = {quoted(task_id)} and purpose = 'train' group by step order by step limit {MOST_VISITS}"
    ).to_dicts()


def cause(reader: RunReader, task_id: str) -> dict[str, Any] | None:
    """Where a task came from: its draft, context and signal (None where the chain ends); None for no such task."""
    return _one(
        reader,
        "select t.id as task_id, t.origin, t.round, d.id as draft_id, c.id as context_id, c.kind as context_kind, "
        "s.id as signal_id from tasks t left join drafts d on d.id = t.draft_id "
        "left join contexts c on c.id = d.context_id left join signals s on s.id = c.signal_id "
        f"where t.id = {quoted(task_id)} limit 1",
    )


def _together(a: dict[str, Any], b: dict[str, Any]) -> int:
    """Number of first steps in which two members do the same."""
    pairs = zip(a["steps"], b["steps"], strict=False)
    same = 0
    for one, other in pairs:
        if one["action"] != other["action"]:
            return same
        same += 1
    return same


def _one(reader: RunReader, query: str) -> dict[str, Any] | None:
    found = reader.sql(query)
    return found.row(0, named=True) if found.height else None
