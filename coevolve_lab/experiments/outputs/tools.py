"""Which tools each method taught: solve rates by tool before and after, above all of the tools that were weakest."""

from __future__ import annotations

import math
from statistics import fmean

import polars as pl

from coevolve_lab import figures
from coevolve_lab.experiments.outputs.artefact import Artefact, markdown, shown
from coevolve_lab.experiments.results import Played, Results
from coevolve_lab.store import RunReader

QUARTER = 4
MEASURES = {
    "tools_before": "all tools, before",
    "tools_after": "all tools, after",
    "weak_before": "weakest quarter before training, before",
    "weak_after": "the same tools, after",
    "weakest_after": "weakest quarter after training",
    "zero_variance": "groups without variance",
    "effective_groups": "groups with a gradient, a step",
    "task_set": "tasks in D_t",
}
_PLAIN_NUMBERS = ("effective_groups", "task_set")
_NOTHING = "No finished run was evaluated before and after training on tasks whose solutions say what tools they need."
_NOTE = """\
Percent of the tasks that need a tool and were solved, each tool counting alike: mean ± standard error over seeds (n).
The tools that are weakest before training are chosen by that evaluation, so part of their rise is chance going back to
the mean; it is the same for all methods that began at the same start, and cancels in their differences."""


def tools(results: Results) -> list[Artefact]:
    """One table of measures by method and column; each tool's rates as CSV; the weakest quarter as a figure.

    Columns of tasks without solutions, and of scenarios, are left out: nobody knows which tools those need.
    """
    measured, rates = [], []
    for one in results.played:
        if one.test and one.before is not None:
            by_tool = tool_rates(results, one)
            if by_tool.is_empty():  # tasks without solutions, or scenarios in place of tasks
                continue
            rates.append(one.placed(by_tool))
            measured.append(one.placed(pl.DataFrame(_measures(by_tool) | _groups(results.reader(one.cell)))))
    if not measured:
        return [Artefact("tools", "Tools", _NOTHING)]
    frame = pl.concat(measured)
    weak = frame.select(method="row", environment="column", seed="seed", score="weak_after")
    figure = figures.method_scores(weak, title="Tools that were the weakest quarter before training, after it")
    return [
        Artefact("tools", "Tools, weak ones above all", _text(results, frame), frame, figure),
        Artefact("tool_rates", "Each tool", "Every tool's solve rates by seed are in the CSV file.", pl.concat(rates)),
    ]


def tool_rates(results: Results, one: Played) -> pl.DataFrame:
    """Columns tool, tasks, before, after of one run (``figures.tool_rates``), on the split that was played."""
    tasks = pl.DataFrame(
        [{"id": t.id, "solution": [list(turn) for turn in t.solution]} for t in results.evaluation_tasks(one)],
        schema={"id": pl.String, "solution": pl.List(pl.List(pl.String))},
    )
    assert one.before is not None
    return figures.tool_rates(tasks, one.before.outcomes, one.last.outcomes)


def _measures(rates: pl.DataFrame) -> dict[str, float]:
    quarter = max(1, rates.height // QUARTER)
    weak = rates.sort("before", "tool").head(quarter)
    return {
        "tools_before": fmean(rates["before"]),
        "tools_after": fmean(rates["after"]),
        "weak_before": fmean(weak["before"]),
        "weak_after": fmean(weak["after"]),
        "weakest_after": fmean(rates["after"].sort().head(quarter)),
    }


def _groups(reader: RunReader) -> dict[str, float]:
    """What training had to learn from; NaN for a method that does not train."""
    row = reader.sql(
        "select sum(groups_all_failed + groups_all_solved) / sum(groups) as zero_variance, "
        "sum(groups - groups_all_failed - groups_all_solved - groups_dropped) / count(*) as effective_groups, "
        "(select count(*) from tasks) as task_set from updates"
    ).row(0, named=True)
    return {name: math.nan if value is None else float(value) for name, value in row.items()}


def _text(results: Results, frame: pl.DataFrame) -> str:
    lines = []
    for column in frame["column"].unique(maintain_order=True):
        for row in results.rows:
            own = frame.filter(pl.col("row") == row, pl.col("column") == column)
            if own.height:
                texts = [
                    shown(
                        own[name].drop_nans().to_list(),
                        1,
                        1 if name in _PLAIN_NUMBERS else 100,
                        count=name == "tools_before",
                    )
                    for name in MEASURES
                ]
                lines.append([f"{row}, {column}", *texts])
    return f"{markdown(['', *MEASURES.values()], lines)}\n\n{_NOTE}\n"
