"""Learning curves of methods: the mean over seeds with a band of one standard error (figure 3a of the paper)."""

from __future__ import annotations

import plotly.graph_objects as go
import polars as pl

from coevolve_lab.figures import style

_TITLE = "Score over training"


def learning_curves(curves: pl.DataFrame, title: str = _TITLE, dark: bool = False) -> go.Figure:
    """One curve for each method, in the order of the frame; methods differ in colour, dash and marker.

    curves: columns method, step, seed, score in [0, 1], one row an evaluation. A point is the mean over the seeds that
    have that step; the band is one standard error over seeds, and is missing where there is one. Published values go
    over it with ``overlay_scores``.
    """
    if curves.is_empty():
        return style.no_data(title, "finish a run of the experiment", dark)
    made = style.figure(title, "training step", "share of tasks solved", dark, height=440)
    means = curves.group_by("method", "step", maintain_order=True).agg(
        pl.col("score").mean().alias("mean"),
        (pl.col("score").std(ddof=1) / pl.len().sqrt()).fill_null(0.0).alias("stderr"),
        pl.len().alias("n"),
    )
    methods = curves["method"].unique(maintain_order=True).to_list()
    looks = {method: style.series_look(index) for index, method in enumerate(methods)}
    by_method = {method: means.filter(pl.col("method") == method).sort("step") for method in methods}
    for method, own in by_method.items():  # all bands first, so that none lies on a curve
        if own["n"].max() == 1:
            continue
        edge = {"mode": "lines", "line": {"width": 0}, "hoverinfo": "skip", "showlegend": False, "legendgroup": method}
        band = style.faded(looks[method].color, 0.16)
        made.add_scatter(x=own["step"], y=own["mean"] + own["stderr"], **edge)
        made.add_scatter(x=own["step"], y=own["mean"] - own["stderr"], fill="tonexty", fillcolor=band, **edge)
    for method, own in by_method.items():
        counts = own["n"].to_list()
        least, most = min(counts), max(counts)
        seeds = f"{least}" if least == most else f"{least}-{most}"
        made.add_scatter(
            x=own["step"],
            y=own["mean"],
            customdata=own["stderr"],
            mode="lines+markers" if own.height > 1 else "markers",
            line=style.line(looks[method]),
            marker=style.point(looks[method]),
            name=f"{method} ({seeds} seed{'' if most == 1 else 's'})",
            legendgroup=method,
            hovertemplate=f"step %{{x}}: %{{y:.3f}} ± %{{customdata:.3f}} {method}<extra></extra>",
        )
    lines = -(-len(methods) // 3)
    return made.update_layout(margin_t=72 + 22 * lines, height=400 + 22 * lines).update_yaxes(tickformat=".0%")
