"""Score of the policy over training (figure 3a of the paper), beside other runs."""

from __future__ import annotations

from collections.abc import Mapping

import plotly.graph_objects as go
import polars as pl

from coevolve_lab.figures import style

_TITLE = "Score per training step"


def score_per_step(
    evaluations: pl.DataFrame,
    updates: pl.DataFrame | None = None,
    baseline: Mapping[str, pl.DataFrame] | None = None,
    split: str | None = None,
    name: str = "this run",
    dark: bool = False,
) -> go.Figure:
    """Greedy score on a split with a band of one standard error, and the sampled training reward as a faint line.

    evaluations: columns step, score, stderr, split. updates: columns step, reward. baseline: evaluations of other runs
    by label. split: which one; by default the split with the most evaluations.
    """
    if evaluations.is_empty():
        return style.no_data(_TITLE, "evaluate the policy", dark)
    split = split or str(evaluations["split"].value_counts(sort=True)["split"][0])
    made = style.figure(f"{_TITLE}, split “{split}”", "training step", "score", dark)
    if updates is not None and not updates.is_empty():
        reward = updates.sort("step")
        thin = {"color": style.GREY, "width": 1.2}
        made.add_scatter(
            x=reward["step"], y=reward["reward"], mode="lines", line=thin, name="training reward (sampled)"
        )
    series = {name: evaluations, **(baseline or {})}
    for (label, frame), look in zip(series.items(), _cycle(len(series)), strict=True):
        rows = frame.filter(pl.col("split") == split).sort("step")
        band = style.faded(look.color, 0.18)
        edge = {"mode": "lines", "line": {"width": 0}, "hoverinfo": "skip", "showlegend": False, "legendgroup": label}
        made.add_scatter(x=rows["step"], y=rows["score"] + rows["stderr"], **edge)
        made.add_scatter(x=rows["step"], y=rows["score"] - rows["stderr"], fill="tonexty", fillcolor=band, **edge)
        made.add_scatter(
            x=rows["step"],
            y=rows["score"],
            customdata=rows["stderr"],
            mode="lines+markers",
            line=style.line(look),
            marker=style.point(look),
            name=label,
            legendgroup=label,
            hovertemplate="step %{x}: %{y:.3f} ± %{customdata:.3f}",
        )
    return made


def _cycle(count: int) -> list[style.Look]:
    return [style.OTHERS[i % len(style.OTHERS)] for i in range(count)]
