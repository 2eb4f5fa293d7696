"""Which tools the policy has learned to use: solve rates per tool before and after."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go
import polars as pl

from coevolve_lab.figures import style

_TITLE = "Solve rate by tool, before and after"
_MOST_TOOLS = 30
_CALL = re.compile(r"\s*([A-Za-z_][\w.]*)\s*\(")


def tool_rates(tasks: pl.DataFrame, before: Mapping[str, float], after: Mapping[str, float]) -> pl.DataFrame:
    """Mean score before and after of the tasks whose solution calls a tool: columns tool, tasks, before, after.

    tasks: columns id, solution (calls by turn, as text). before, after: score by task id (``Evaluation.outcomes``);
    tasks that are not in both are left out.
    """
    rows = [
        {"tool": tool, "before": before[task], "after": after[task]}
        for task, solution in tasks.select("id", "solution").iter_rows()
        if task in before and task in after
        for tool in _tools(solution)
    ]
    frame = pl.DataFrame(rows, schema={"tool": pl.String, "before": pl.Float64, "after": pl.Float64})
    return frame.group_by("tool").agg(pl.len().alias("tasks"), pl.col("before", "after").mean()).sort("tool")


def _tools(solution: Sequence[Sequence[str]]) -> set[str]:
    found = (_CALL.match(call) for turn in solution for call in turn)
    return {match[1] for match in found if match}


def solve_rates(
    tasks: pl.DataFrame, before: Mapping[str, float], after: Mapping[str, float], dark: bool = False
) -> go.Figure:
    """One line per tool from its solve rate before to that after, sorted by the gain. Arguments as for ``tool_rates``.

    Of more than 30 tools the most often needed are shown, and the title says so.
    """
    rates = tool_rates(tasks, before, after)
    if rates.is_empty():
        return style.no_data(_TITLE, "evaluate twice on tasks with solutions", dark)
    chosen = rates.sort("tasks", "tool", descending=[True, False]).head(_MOST_TOOLS)
    chosen = chosen.sort(pl.col("after") - pl.col("before"), "after", "tool")
    note = f" (the {_MOST_TOOLS} most needed of {rates.height})" if rates.height > _MOST_TOOLS else ""
    made = style.figure(_TITLE + note, "share of tasks solved", dark=dark, height=150 + 22 * chosen.height)
    labels = [f"{tool} ({tasks})" for tool, tasks in chosen.select("tool", "tasks").iter_rows()]
    for label, low, high in zip(labels, chosen["before"], chosen["after"], strict=True):
        ends = {"color": style.GREY, "width": 2}
        made.add_scatter(x=[low, high], y=[label] * 2, mode="lines", line=ends, showlegend=False, hoverinfo="skip")
    old, new = style.Look(style.ORANGE, marker="circle-open"), style.Look(style.BLUE, marker="circle")
    for name, look in (("before", old), ("after", new)):
        hover = f"%{{y}}: %{{x:.0%}} {name}<extra></extra>"
        marker = {**style.point(look, 10), "line": {"width": 2, "color": look.color}}
        made.add_scatter(x=chosen[name], y=labels, mode="markers", marker=marker, name=name, hovertemplate=hover)
    return made.update_xaxes(tickformat=".0%", range=[-0.02, 1.02]).update_yaxes(tickfont_size=12, rangemode="normal")
