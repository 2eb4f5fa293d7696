"""Tasks and trajectories of a run out to files, round by round, so that no run is too long for the memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from coevolve_lab.environments.base import Environment
from coevolve_lab.errors import StoreError
from coevolve_lab.evolution.replaying import Replay, replay_solution
from coevolve_lab.evolution.start_states import open_start
from coevolve_lab.evolution.validation import SOLVED
from coevolve_lab.exchange.columns import TASKS, trajectories
from coevolve_lab.exchange.messages import task_messages, trajectory_messages
from coevolve_lab.exchange.writing import Exported, Row, format_of, write_pages
from coevolve_lab.records import Step, Task, Trajectory, to_dict
from coevolve_lab.store import RunReader, quoted, schema

PAGE = 256  # rows held in memory at a time

# From a task to the trajectory whose weakness caused it (design rule 6), with what became of it.
_PROVENANCE = """
select t.id, d.context_id, c.kind as context_kind,
       c.signal_id, s.kind as signal_kind, s.trajectory_id, j.policy_version,
       (select max(v.similarity) from verdicts v where v.task_id = t.id) as similarity,
       coalesce(p.tries, 0) as tries, p.solve_rate
from tasks t
left join drafts d on d.id = t.draft_id
left join contexts c on c.id = d.context_id
left join signals s on s.id = c.signal_id
left join trajectories j on j.id = s.trajectory_id
left join (select task_id, count(*) as tries, avg((score >= {solved})::int) as solve_rate from trajectories
           where purpose = 'train' and task_id in ({ids}) group by task_id) p on p.task_id = t.id
where t.id in ({ids})
"""
_IDS = ("token_ids", "logprobs", "reply_ids")
_NO_IDS = "[]::integer[] as token_ids, []::double[] as logprobs, []::integer[] as reply_ids"


def export_tasks(
    reader: RunReader,
    path: str | Path,
    format: str | None = None,
    *,
    environment: Environment | None = None,
    with_results: bool = False,
    system: str | None = None,
    overwrite: bool = False,
) -> Exported:
    """D_t as OpenAI messages with tool calls, and where each task came from (columns: ``columns.TASKS``).

    format: "jsonl", "parquet", "hf", or by the path's suffix (none: hf). environment: gives the tools' schemas;
    with_results: also replays every solution in it, for the results of its calls. system: text of a system message
    that goes first. overwrite: replace an earlier export. Raises StoreError.

    >>> export_tasks(run.reader, "data/tasks.jsonl", environment=make("bfcl"), with_results=True)
    """
    if with_results and environment is None:
        raise StoreError("results of calls come from replaying them: give the run's environment too")
    done = Exported(Path(path), format_of(path, format))
    tools_of = _tools_of(environment, done)

    def row(task: Task, chain: dict[str, Any]) -> Row:
        tools = tools_of(task)
        replay = _replayed(environment, task, done) if environment is not None and with_results else None
        return {
            **{name: getattr(task, name) for name in ("id", "environment", "split", "origin", "round", "explorer")},
            "query": task.turns[0] if task.turns else "",
            "turns": task.turns,
            "messages": task_messages(task, tools, replay.calls if replay else None, system),
            "tools": tools,
            "start": to_dict(task)["start"],
            "solution": task.solution,
            "draft_id": task.draft_id,
            **chain,
            "replay_score": replay.score if replay else None,
        }

    def pages() -> Iterator[tuple[str, int, list[Row]]]:
        for split, round, ids in _paged(reader, "select id, split, round from tasks"):
            tasks = reader.records(Task, f"round = {round} and id in ({ids})")
            chains = reader.sql(_PROVENANCE.format(ids=ids, solved=SOLVED)).unique("id").to_dicts()
            found = {chain.pop("id"): chain for chain in chains}
            yield split, round, [row(task, found[task.id]) for task in tasks]

    return write_pages(done, pages(), "tasks", TASKS, overwrite)


def export_trajectories(
    reader: RunReader,
    path: str | Path,
    format: str | None = None,
    *,
    purpose: str = "train",
    min_score: float | None = None,
    policy_version: int | None = None,
    environment: Environment | None = None,
    with_tokens: bool = False,
    system: str | None = None,
    overwrite: bool = False,
) -> Exported:
    """Episodes as OpenAI messages with tool calls and results, their reward and policy version.

    purpose: "train" or "evaluate". min_score, policy_version: only those that score at least so much, or that this
    version played. environment: gives the tools' schemas, and the tasks that are not in D_t, evaluation tasks above
    all: without it their trajectories are left out, and counted. with_tokens: token ids and log-probabilities as
    sampled. The others: as in ``export_tasks``. Raises StoreError.
    """
    done = Exported(Path(path), format_of(path, format))
    tools_of = _tools_of(environment, done)
    foreign = lru_cache(maxsize=1)(lambda: _environment_tasks(environment))
    where = [f"purpose = {quoted(purpose)}"]
    if min_score is not None:
        where.append(f"score >= {float(min_score)}")
    if policy_version is not None:
        where.append(f"policy_version = {int(policy_version)}")
    chosen = f"select id, purpose, round from trajectories where {' and '.join(where)}"

    def row(trajectory: Trajectory, task: Task, signals: list[str]) -> Row:
        tools = tools_of(task)
        taken = [f.name for f in fields(Step) if with_tokens or f.name not in _IDS]
        made: Row = {
            **{name: getattr(trajectory, name) for name in ("id", "task_id", "group_id")},
            "environment": task.environment,
            "origin": task.origin,
            "draft_id": task.draft_id,
            **{name: getattr(trajectory, name) for name in ("purpose", "policy_version", "round", "step", "score")},
            "status": trajectory.status,
            "temperature": trajectory.temperature,
            "signals": signals,
            "messages": trajectory_messages(trajectory, task, tools, system),
            "tools": tools,
            "steps": [{name: getattr(step, name) for name in taken} for step in trajectory.steps],
        }
        return {**made, "prompt_ids": trajectory.prompt_ids} if with_tokens else made

    def pages() -> Iterator[tuple[str, int, list[Row]]]:
        for split, round, ids in _paged(reader, chosen):
            played = _trajectories(reader, round, ids, with_tokens)
            names = _listed({trajectory.task_id for trajectory in played})
            tasks = {task.id: task for task in reader.records(Task, f"id in ({names})")}
            marks = dict(
                reader.sql(
                    "select trajectory_id, list(distinct kind order by kind) from signals "
                    f"where trajectory_id in ({ids}) group by all"
                ).rows()
            )
            rows = []
            for trajectory in played:
                task = tasks.get(trajectory.task_id) or foreign().get(trajectory.task_id)
                if task is None:
                    done.note("trajectories left out: their tasks are not in D_t; give the environment")
                else:
                    rows.append(row(trajectory, task, list(marks.get(trajectory.id, ()))))
            yield split, round, rows

    return write_pages(done, pages(), "trajectories", trajectories(with_tokens), overwrite)


def _paged(reader: RunReader, query: str) -> Iterator[tuple[str, int, str]]:
    """Split, round and an SQL list of the ids of each page of a query of ids; a page never spans two rounds.

    In a round, the order is that in which the rows were recorded.
    """
    page: list[str] = []
    place: tuple[str, int] | None = None
    for ident, split, round in sorted(reader.sql(query).iter_rows(), key=lambda row: (row[2], row[1])):
        if page and (place != (split, round) or len(page) == PAGE):
            assert place is not None
            yield *place, _listed(page)
            page = []
        place = (split, round)
        page.append(ident)
    if page and place is not None:
        yield *place, _listed(page)


def _trajectories(reader: RunReader, round: int, ids: str, with_tokens: bool) -> list[Trajectory]:
    """Trajectories of one round with their steps; only this round's part of ``steps`` is read, its ids if wanted."""
    chosen = "*" if with_tokens else f"* replace ({_NO_IDS})"
    frame = reader.sql(f"select * from trajectories where round = {round} and id in ({ids})")
    steps = reader.sql(f"select {chosen} from steps where round = {round} and trajectory_id in ({ids})")
    return schema.from_frame(Trajectory, frame, steps)


def _tools_of(environment: Environment | None, done: Exported) -> Callable[[Task], list[dict[str, Any]]]:
    if environment is None:
        return lambda task: []
    known: dict[str, list[dict[str, Any]]] = {}

    def tools(task: Task) -> list[dict[str, Any]]:
        if task.id not in known:
            if len(known) >= 4 * PAGE:  # a group's trajectories follow each other
                known.clear()
            try:
                session = open_start(environment, task.start)
                known[task.id] = session.tools
                session.close()
            except Exception:  # a benchmark may raise anything on one start; the others are exported with their tools
                done.note("tasks without tool schemas: the environment cannot open their start")
                known[task.id] = []
        return known[task.id]

    return tools


def _replayed(environment: Environment, task: Task, done: Exported) -> Replay | None:
    try:
        replay = replay_solution(environment, task)
    except Exception:  # a benchmark may raise anything on one task; the others are exported with their results
        done.note("tasks without results: the environment broke when they were replayed")
        return None
    if replay.stopped:
        done.note(f"tasks with some results only: {replay.stopped}")
    return replay


def _environment_tasks(environment: Environment | None) -> dict[str, Task]:
    if environment is None:
        return {}
    return {task.id: task for split in environment.splits() for task in environment.tasks(split) if task.turns}


def _listed(names: Sequence[str] | set[str]) -> str:
    return ", ".join(map(quoted, names))
