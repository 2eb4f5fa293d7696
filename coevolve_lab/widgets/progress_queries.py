"""What the dashboard shows, aggregated in SQL: small frames however long the run is."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from coevolve_lab.store import RunReader, quoted
from coevolve_lab.widgets.figure import MOST_POINTS

MOST_ROUNDS = 200  # bars that can still be told apart; more rounds share one
_STEP = "step // greatest(1, (max(step) over () + {points} - 1) // {points})"
_ROUND = f"round // greatest(1, (max(round) over () + {MOST_ROUNDS}) // {MOST_ROUNDS})"
# Of several at one step the last: the trials of Reflexion all stand where training ended.
EVALUATIONS = f"""
    with last as (
        select step, score, stderr from evaluations where split = {{split}}
        qualify row_number() over (partition by step order by round desc, length(id) desc, id desc) = 1
    ), e as (select *, {_STEP} as place from last)
    select max(step) as step, avg(score) as score, avg(stderr) as stderr from e group by place order by step"""
# table -> the one query over it; opening a long run's many parts is what costs, so each table is read once
_QUERIES = {
    "updates": f"""
        with u as (select *, {_STEP} as place from updates)
        select max(step) as step, avg(reward) as reward, avg(kl) as kl, avg(clip_fraction) as clip,
               avg(entropy) as entropy, avg(logprob_gap) filter (coalesce(staleness_largest, 0) = 0) as gap,
               max(staleness_largest) as staleness, sum(stale)::bigint as refused,
               sum(groups_all_failed + groups_all_solved) / greatest(sum(groups), 1) as flat
        from u group by place order by step""",
    "evaluations": EVALUATIONS,
    "signals": f"""
        with s as (select round, kind, {_ROUND} as place from signals)
        select min(round) over (partition by place) as round, kind, n from
            (select place, min(round) as round, kind, count(*) as n from s group by place, kind)
        order by round, kind""",
    "tasks": f"""
        with t as (select round, origin, n_calls, {_ROUND} as place from tasks)
        select min(round) over (partition by place) as round, origin, calls, n from
            (select place, min(round) as round, origin, least(n_calls, 30) as calls, count(*) as n
             from t group by place, origin, calls) order by round, calls""",
    "drafts": "select count(*) as n from drafts",
    "verdicts": """
        with v as (select *, row_number() over () as place from verdicts),
             d as (select arg_max(outcome, place) as outcome, arg_max(reason, place) as reason from v group by draft_id)
        select outcome, reason, count(*) as n from d group by all order by n desc, reason""",
    "stage_costs": """
        with c as (select *, row_number() over () as place from stage_costs)
        select stage, sum(seconds) filter (round > 0) as seconds, sum(restarts)::bigint as restarts,
               sum(missed)::bigint as missed, sum(swaps)::bigint as swaps, max(place) filter (swaps > 0) as swapped,
               arg_max(swap_seconds, place) filter (swaps > 0) as swap_seconds
        from c group by stage""",
}
Version = dict[str, tuple[int, str]]


@dataclass(frozen=True)
class Progress:
    """One look at a run; every frame has at most some thousand rows."""

    committed: int | None
    updates: pl.DataFrame  # step, reward, kl, clip, entropy, gap (null: all stale), staleness, refused, flat
    evaluations: pl.DataFrame  # step, score, stderr
    signals: pl.DataFrame  # round, kind, n
    tasks: pl.DataFrame  # round, origin, calls, n
    drafts: pl.DataFrame  # n
    verdicts: pl.DataFrame  # outcome, reason, n: of each draft the last one
    stage_costs: pl.DataFrame  # stage, seconds (after round 0), restarts, missed, swaps, swapped, swap_seconds
    version: Version = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """Training steps done."""
        return int(self.updates["step"][-1]) if self.updates.height else 0

    @property
    def size(self) -> int:
        """Tasks in D_t."""
        return int(self.tasks["n"].sum())

    @property
    def seconds(self) -> float:
        """Wall-clock of all stages after round 0."""
        return float(self.stage_costs["seconds"].sum() or 0.0)


def look(reader: RunReader, last: Progress | None = None) -> Progress:
    """Read a run's progress; nothing is loaded that is not shown. last: an earlier look at the same run, so that only
    tables that changed since are read."""
    split = quoted(reader.config["environment"]["evaluation_split"])
    now = version(reader)
    frames = {
        table: getattr(last, table)
        if last is not None and last.version[table] == now[table]
        else reader.sql(query.format(split=split, points=MOST_POINTS))
        for table, query in _QUERIES.items()
    }
    return Progress(committed=reader.committed_round, version=now, **frames)


def version(reader: RunReader) -> Version:
    """For each table, what changes whenever a reader would see other rows. In the writer's process it makes them
    visible first."""
    reader.sql("select 1")
    return {table: (len(paths), paths[-1].name if paths else "") for table, paths in reader.parts().items()}
