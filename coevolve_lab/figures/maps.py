"""Where the tasks of D_t lie on a map of their embeddings, and how the map fills up (figure 3c of the paper)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import plotly.graph_objects as go
import polars as pl

from coevolve_lab.figures import style

_TITLE = "Task embeddings, original and synthesized"
_MOST_PANELS = 4


def task_map(
    points: pl.DataFrame,
    steps: Sequence[int] | None = None,
    original: Collection[str] = ("benchmark", "seed"),
    dark: bool = False,
) -> go.Figure:
    """A panel for each of some steps, with every task that D_t held by then.

    points: columns x, y (``evaluation.projection.project`` of all tasks at once, so that the panels share a map),
    origin, and step, the step or round at which the task entered. steps: which; by default up to four, spread evenly
    over those at which tasks entered, the first and the last among them. original: origins that count as original.
    """
    if points.is_empty():
        return style.no_data(_TITLE, "seed the task set", dark)
    entered = points["step"].unique().sort().to_list()
    shown = sorted(steps) if steps is not None else _spread(entered)
    names = [f"step {step}: {points.filter(pl.col('step') <= step).height} tasks" for step in shown]
    made = style.panels(_TITLE, names, 1, len(shown), dark, height=380)
    first, other = style.Look(style.GREY, marker="circle-open"), style.Look(style.VERMILLION, marker="diamond")
    for column, step in enumerate(shown, start=1):
        there = points.filter(pl.col("step") <= step)
        for name, wanted, look in (("original", True, first), ("synthesized", False, other)):
            own = there.filter(pl.col("origin").is_in(list(original)) == wanted)
            made.add_scatter(
                x=own["x"],
                y=own["y"],
                mode="markers",
                marker={**style.point(look, 6), "opacity": 0.8},
                name=name,
                legendgroup=name,
                showlegend=column == len(shown),  # the last panel has every group that any has
                customdata=own["origin"],
                hovertemplate="%{customdata}<extra></extra>",
                row=1,
                col=column,
            )
    made.update_layout(margin_t=112, legend_y=1.1)
    made.update_xaxes(showticklabels=False, ticks="", range=_range(points["x"]))
    return made.update_yaxes(showticklabels=False, showgrid=False, range=_range(points["y"]))


def _spread(entered: list[int]) -> list[int]:
    if len(entered) <= _MOST_PANELS:
        return entered
    gap = (len(entered) - 1) / (_MOST_PANELS - 1)
    return [entered[round(i * gap)] for i in range(_MOST_PANELS)]


def _range(values: pl.Series) -> list[float]:
    low, high = float(values.min()), float(values.max())  # type: ignore[arg-type]
    margin = 0.05 * (high - low) or 1.0
    return [low - margin, high + margin]
