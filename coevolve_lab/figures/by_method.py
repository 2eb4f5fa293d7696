"""Scores of methods side by side: marks with error bars, single seeds as dots, published values as hollow marks."""

from __future__ import annotations

import plotly.graph_objects as go
import polars as pl

from coevolve_lab.figures import published as over
from coevolve_lab.figures import style

_TITLE = "Score by method"
_SPREAD = 0.56  # of the distance between two methods, over which the series of one lie
_SEED_DROP = 0.09  # how far below its mark a seed's dot lies


def method_scores(
    scores: pl.DataFrame,
    published: pl.DataFrame | None = None,
    title: str = _TITLE,
    dark: bool = False,
) -> go.Figure:
    """A line for each method, from top to bottom in the order of the frame; a mark for each environment.

    scores: columns method, environment, seed, score in [0, 1], one row a seed: the mark is the mean, its bar one
    standard error over seeds (none for one seed), and small dots are the seeds. published: columns method, environment,
    published (percent), of the paper; drawn hollow, in lines of their own, and only for methods and environments that
    have an own score: they are of other models, and are there for the order, not for the size.
    """
    if scores.is_empty():
        return style.no_data(title, "finish a run of the experiment", dark)
    methods = scores["method"].unique(maintain_order=True).to_list()
    environments = scores["environment"].unique(maintain_order=True).to_list()
    shared = _shared(scores, published)
    drawn = [(name, False) for name in environments]
    drawn += [(name, True) for name in environments if name in shared["environment"].to_list()]
    offsets = _offsets(len(drawn))
    made = style.figure(title, "score", dark=dark, height=150 + (26 + 15 * len(drawn)) * len(methods))
    looks = {name: style.series_look(index) for index, name in enumerate(environments)}
    for (name, is_published), offset in zip(drawn, offsets, strict=True):
        if is_published:
            own = shared.filter(pl.col("environment") == name)
            _add_published(made, own, [methods.index(m) + offset for m in own["method"]], name, environments, dark)
        else:
            _add_own(made, scores.filter(pl.col("environment") == name), methods, offset, name, looks[name], dark)
    for line in range(1, len(methods)):
        made.add_hline(y=line - 0.5, line={"color": style.GREY, "width": 0.5})
    made.update_yaxes(
        tickvals=list(range(len(methods))),
        ticktext=methods,
        range=[len(methods) - 0.5, -0.5],
        showgrid=False,
        rangemode="normal",
    )
    return made.update_xaxes(tickformat=".0%", showgrid=True, rangemode="tozero")


def _add_own(
    made: go.Figure, own: pl.DataFrame, methods: list[str], offset: float, name: str, look: style.Look, dark: bool
) -> None:
    means = own.group_by("method", maintain_order=True).agg(
        pl.col("score").mean().alias("mean"),
        (pl.col("score").std(ddof=1) / pl.len().sqrt()).alias("stderr"),
        pl.len().alias("n"),
    )
    counts = means["n"].to_list()
    several = max(counts) > 1
    if several:
        dots = own.join(means.filter(pl.col("n") > 1).select("method"), on="method", how="semi")
        made.add_scatter(
            x=dots["score"],
            y=[methods.index(m) + offset + _SEED_DROP for m in dots["method"]],
            mode="markers",
            marker={"color": style.faded(look.color, 0.55), "size": 5, "symbol": look.marker},
            showlegend=False,
            legendgroup=name,
            customdata=dots["seed"],
            hovertemplate=f"{name}, seed %{{customdata}}: %{{x:.1%}}<extra></extra>",
        )
    seeds = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)}-{max(counts)}"
    made.add_scatter(
        x=means["mean"],
        y=[methods.index(m) + offset for m in means["method"]],
        error_x={"type": "data", "array": means["stderr"].fill_null(0.0), "color": style.ink(dark), "thickness": 1.5}
        if several
        else None,
        mode="markers",
        marker={**style.point(look, 10), "line": {"width": 1, "color": style.paper(dark)}},
        name=f"{name} ({seeds} seed{'s' if several else ''})",
        legendgroup=name,
        hovertemplate=f"{name}: %{{x:.1%}}<extra></extra>",
    )


def _add_published(
    made: go.Figure, own: pl.DataFrame, y: list[float], name: str, environments: list[str], dark: bool
) -> None:
    over.add_points(made, own["published"] / 100, y, name, environments.index(name), dark)
    made.data[-1].update(mode="markers")


def _shared(scores: pl.DataFrame, published: pl.DataFrame | None) -> pl.DataFrame:
    """Published values of methods and environments that there are own scores of."""
    if published is None:
        return pl.DataFrame(schema={"method": pl.String, "environment": pl.String, "published": pl.Float64})
    return published.join(scores.select("method", "environment").unique(), on=["method", "environment"], how="semi")


def _offsets(count: int) -> list[float]:
    return [0.0] if count == 1 else [_SPREAD * (i / (count - 1) - 0.5) for i in range(count)]
