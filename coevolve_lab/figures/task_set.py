"""The task set D_t: how it grows, and how long its tasks are (figure 7 of the paper)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

import numpy as np
import plotly.graph_objects as go
import polars as pl

from coevolve_lab.figures import style

_ORDER = ("benchmark", "seed", "import", "feedback", "uniform", "random")


def task_set_growth(tasks: pl.DataFrame, dark: bool = False) -> go.Figure:
    """Size of the task set after each round, stacked by where tasks came from. tasks: columns round, origin."""
    title = "Growth of the task set"
    if tasks.is_empty():
        return style.no_data(title, "seed the task set", dark)
    rounds = pl.Series("round", range(int(tasks["round"].max()) + 1), dtype=pl.Int64)  # type: ignore[arg-type]
    made = style.figure(title, "round", "tasks", dark)
    for origin, look in style.looks(sorted(tasks["origin"].unique(), key=_ORDER.index)).items():
        added = tasks.filter(pl.col("origin") == origin).group_by("round").len()
        size = rounds.to_frame().join(added, on="round", how="left").sort("round")["len"].fill_null(0).cum_sum()
        hover = f"round %{{x}}: %{{y}} {origin}<extra></extra>"
        made.add_bar(x=rounds, y=size, marker=style.bar(look, dark), name=origin, hovertemplate=hover)
    return made.update_layout(barmode="stack").update_xaxes(tickformat="d", nticks=min(14, len(rounds) + 1))


def turn_histogram(
    tasks: pl.DataFrame,
    measure: Literal["calls", "turns"] = "calls",
    original: Collection[str] = ("benchmark", "seed"),
    dark: bool = False,
) -> go.Figure:
    """Share of tasks by the number of interactions that solve them, original against synthesized, with densities.

    tasks: columns origin, solution (calls by turn). measure: calls in the solution, or user turns. original: origins
    that count as original; all others are synthesized. The lines are Gaussian densities (Silverman's bandwidth).
    """
    title = f"{measure.capitalize()} per task, original against synthesized"
    if tasks.is_empty():
        return style.no_data(title, "seed the task set", dark)
    per_turn = pl.col("solution").list
    length = per_turn.len() if measure == "turns" else per_turn.eval(pl.element().list.len()).list.sum()
    lengths = tasks.select(length.fill_null(0).alias("n"), pl.col("origin").is_in(list(original)).alias("original"))
    made = style.figure(title, f"{measure} in the solution", "share of tasks", dark)
    groups = [("original", True, style.OTHERS[0]), ("synthesized", False, style.OTHERS[1])]
    top = int(lengths["n"].max()) + 1  # type: ignore[arg-type]
    for label, wanted, look in groups:
        values = lengths.filter(pl.col("original") == wanted)["n"].to_numpy()
        if not len(values):
            continue
        share = np.bincount(values, minlength=top + 1) / len(values)
        shown = np.arange(top + 1)
        label = f"{label} (n = {len(values)}, mean {values.mean():.1f})"
        hover = f"%{{x}} {measure}: %{{y:.1%}}<extra></extra>"
        marker = style.bar(look, dark)
        made.add_bar(x=shown, y=share, marker=marker, opacity=0.75, name=label, legendgroup=label, hovertemplate=hover)
        x, density = _density(values.astype(float), top)
        made.add_scatter(
            x=x, y=density, mode="lines", line=style.line(look), legendgroup=label, showlegend=False, hoverinfo="skip"
        )
    return (
        made.update_layout(barmode="group").update_xaxes(dtick=1 if top <= 20 else None).update_yaxes(tickformat=".0%")
    )


def _density(values: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
    """A Gaussian kernel density of counts on 0..top. Its bandwidth is at least 0.6: counts are whole numbers."""
    width = max(0.6, 0.9 * float(values.std()) * len(values) ** -0.2)
    x = np.linspace(0, top, 200)
    levels, repeats = np.unique(values, return_counts=True)
    kernels = np.exp(-0.5 * ((x[:, None] - levels) / width) ** 2) / (width * np.sqrt(2 * np.pi))
    return x, kernels @ (repeats / len(values))
