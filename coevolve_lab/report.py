"""A run at a glance: one row per round, evaluations, and every figure that its records can fill.

>>> from coevolve_lab.report import rounds_table, run_figures
>>> rounds_table(run.reader)
>>> run_figures(run.reader)["score_per_step"]
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coevolve_lab import environments, figures
from coevolve_lab.config import load_config
from coevolve_lab.errors import ConfigError, PrerequisiteError
from coevolve_lab.records import Task
from coevolve_lab.store import RunReader, quoted

if TYPE_CHECKING:
    import polars as pl

# Not part of a round's work: preparing the run, and measuring it.
_ASIDE = ("assemble", "evaluate")

_ROUNDS = """
with r as (select distinct round from stage_costs),
u as (select round, count(*) as steps, avg(reward) as reward, sum(groups) as groups, max(step) as last_step,
             sum(groups_all_failed + groups_all_solved) / sum(groups) as flat from updates group by round),
e as (select round, arg_max(score, step) as score, arg_max(stderr, step) as stderr
      from evaluations where split = {split} group by round),
k as (select round, kind, count(*) as n from signals group by all),
s as (select round, string_agg(kind || ' ' || n, ', ' order by kind) as signals from k group by round),
p as (select *, row_number() over () as place from verdicts),
d as (select arg_max(round, place) as round, arg_max(outcome, place) as outcome, arg_max(reason, place) as reason
      from p group by draft_id),
v as (select round, count(*) filter (outcome = 'accepted') as accepted, count(*) filter (outcome = 'held') as held,
             count(*) filter (outcome = 'retained') as retained,
             count(*) filter (outcome = 'discarded' and reason <> 'surplus') as discarded from d group by round),
c as (select round, sum(seconds) as seconds from stage_costs group by round)
select r.round, coalesce(steps, 0) as steps, reward, score, stderr, coalesce(signals, '') as signals,
       coalesce(accepted, 0) as accepted, coalesce(held, 0) as held, coalesce(retained, 0) as retained,
       coalesce(discarded, 0) as discarded,
       (select count(*) from tasks t where t.round <= r.round) as tasks, flat, seconds
from r left join u using (round) left join e using (round) left join s using (round) left join v using (round)
       left join c using (round) order by r.round
"""

_EVALUATIONS = """
select e.round, e.step, e.split, e.score, e.stderr, e.tasks,
       (select count(*) from tasks t where t.round <= e.round) as task_set
from evaluations e order by e.step, e.split
"""


def rounds_table(reader: RunReader) -> pl.DataFrame:
    """One row per round, the one in progress included.

    reward: mean score of the sampled trajectories; score, stderr: the round's last greedy evaluation on the run's
    evaluation split (null if there was none); signals: marks by kind, as text; accepted, held (passed, and left to a
    person), retained, discarded: drafts that were validated, by their last verdict; tasks: size of D_t after the round;
    flat: share of groups without variance, which teach nothing; seconds: of wall-clock in all stages.
    """
    return reader.sql(_ROUNDS.format(split=quoted(reader.config["environment"]["evaluation_split"])))


def evaluations_table(reader: RunReader) -> pl.DataFrame:
    """Every evaluation: columns round, step, split, score, stderr, tasks, task_set (size of D_t then)."""
    return reader.sql(_EVALUATIONS)


def run_figures(reader: RunReader, held_out: Sequence[Task] = (), dark: bool = False) -> dict[str, Any]:
    """All figures of a run by name (plotly Figures).

    held_out: the tasks of the run's evaluation split (``evaluation_tasks``). A run stores only how they went, so
    without them the figure by tool is left out.
    """
    split = str(reader.config["environment"]["evaluation_split"])
    tasks, updates, evaluations = (reader.table(name) for name in ("tasks", "updates", "evaluations"))
    aside = ", ".join(map(quoted, _ASIDE))
    costs = reader.sql(f"select * from stage_costs where round > 0 and stage not in ({aside})")
    has_split = split in evaluations["split"].to_list()
    made = {
        "score_per_step": figures.score_per_step(evaluations, updates, split=split if has_split else None, dark=dark),
        "signals_per_round": figures.signals_per_round(reader.table("signals"), dark=dark),
        "signal_shares": figures.signal_shares(reader.table("signals"), dark=dark),
        "similarity_histogram": figures.similarity_histogram(
            reader.sql("select similarity from verdicts where outcome = 'accepted'"), dark=dark
        ),
        "pass_rate": figures.pass_rate(reader.table("verdicts"), dark=dark),
        "task_set_growth": figures.task_set_growth(tasks, dark=dark),
        "turn_histogram": figures.turn_histogram(tasks, dark=dark),
        "cost_share": figures.cost_share(costs, dark=dark),
        "policy_health": figures.policy_health(updates, dark=dark),
    }
    if held_out:
        before, after = _first_and_last_outcomes(reader, split)
        made["solve_rates"] = figures.solve_rates(_solutions(held_out), before, after, dark=dark)
    return made


def evaluation_tasks(reader: RunReader) -> list[Task]:
    """The tasks of the run's evaluation split, from its environment. Raises PrerequisiteError if that is missing."""
    config = load_config(reader.config)
    environment = environments.make(config.environment.name, **config.environment.arguments())
    return environment.tasks(config.environment.evaluation_split)


def write_figures(reader: RunReader, folder: str | Path) -> tuple[list[Path], list[str]]:
    """Every figure as HTML and PNG in ``folder``: the files, and a sentence for each thing that had to be left out.

    PNG needs a Chromium, the figure by tool needs the run's environment, installed or registered; neither is a reason
    to write nothing.
    """
    missing = []
    try:
        tasks = evaluation_tasks(reader)
    except (PrerequisiteError, ConfigError) as error:
        tasks = []
        missing.append(f"no solve rates by tool: {error}")
    made = run_figures(reader, tasks)
    written = figures.save_all(made, folder, ("html",))
    try:
        written += figures.save_all(made, folder, ("png",))
    except PrerequisiteError as error:
        missing.append(f"no PNG files: {error}")
    return written, missing


def _first_and_last_outcomes(reader: RunReader, split: str) -> tuple[dict[str, float], dict[str, float]]:
    rows = reader.sql(f"select outcomes from evaluations where split = {quoted(split)} order by step")["outcomes"]
    return (json.loads(rows[0]), json.loads(rows[-1])) if len(rows) > 1 else ({}, {})


def _solutions(tasks: Sequence[Task]) -> pl.DataFrame:
    import polars as pl

    rows = [{"id": task.id, "solution": [list(turn) for turn in task.solution]} for task in tasks]
    return pl.DataFrame(rows, schema={"id": pl.String, "solution": pl.List(pl.List(pl.String))})
