"""What share of all marks each kind of signal has (figure 4 of the paper)."""

from __future__ import annotations

import plotly.graph_objects as go
import polars as pl

from coevolve_lab.figures import published as over
from coevolve_lab.figures import style

_TITLE = "Weakness signals by kind"
_FIRST = ("forgetting", "boundary", "rare")


def signal_shares(signals: pl.DataFrame, published: pl.DataFrame | None = None, dark: bool = False) -> go.Figure:
    """Share of the marks by kind, a bar for each environment; with several seeds the mean and its standard error.

    signals: columns kind and, where there are several, environment and seed; one row a mark. A trajectory may carry
    several marks. published: ``paper.figure("4")``, drawn as hollow bars beside.
    """
    if signals.is_empty():
        return style.no_data(_TITLE, "signals come with the first round of training", dark)
    shares = shares_by_kind(signals)
    found = shares["kind"].unique().to_list()
    kinds = [kind for kind in _FIRST if kind in found or published is not None]
    kinds += sorted(set(found) - set(_FIRST))
    made = style.figure(_TITLE, "", "share of marks", dark)
    for index, environment in enumerate(shares["environment"].unique(maintain_order=True)):
        own = pl.DataFrame({"kind": kinds}).join(
            shares.filter(pl.col("environment") == environment), on="kind", how="left", maintain_order="left"
        )
        seeds = int(own["seeds"].max())  # type: ignore[arg-type]
        made.add_bar(
            x=kinds,
            y=own["share"].fill_null(0.0),
            error_y={"type": "data", "array": own["stderr"].fill_null(0.0), "color": style.ink(dark)}
            if seeds > 1
            else None,
            marker=style.bar(style.OTHERS[index % len(style.OTHERS)], dark),
            name=f"{environment} ({seeds} seeds)" if seeds > 1 else str(environment),
            hovertemplate=f"%{{x}}: %{{y:.1%}} of {environment}<extra></extra>",
        )
    if published is not None:
        for index, benchmark in enumerate(published["benchmark"].unique(maintain_order=True)):
            percent = dict(published.filter(pl.col("benchmark") == benchmark).select("kind", "percent").iter_rows())
            made.add_bar(
                x=list(percent),
                y=[value / 100 for value in percent.values()],
                marker=over.bar(index, dark),
                name=over.label(str(benchmark)),
                hovertemplate=f"%{{x}}: %{{y:.1%}} {over.label(str(benchmark))}<extra></extra>",
            )
    return made.update_layout(barmode="group").update_yaxes(tickformat=".0%").update_xaxes(categoryarray=kinds)


def shares_by_kind(signals: pl.DataFrame) -> pl.DataFrame:
    """Columns environment, kind, share, stderr, seeds: means over seeds. A seed without a kind counts as 0 of it.

    signals: as for ``signal_shares``. stderr: sample standard deviation over sqrt(seeds), null for one seed.
    """
    extra = [
        pl.lit(default).alias(name)
        for name, default in (("environment", "own run"), ("seed", 0))
        if name not in signals
    ]
    marks = signals.with_columns(extra)
    counts = marks.group_by("environment", "seed", "kind", maintain_order=True).len()
    runs = counts.group_by("environment", "seed", maintain_order=True).agg(pl.col("len").sum().alias("total"))
    every = runs.join(marks.select("environment", "kind").unique(maintain_order=True), on="environment")
    filled = every.join(counts, on=["environment", "seed", "kind"], how="left", maintain_order="left")
    share = pl.col("len").fill_null(0) / pl.col("total")
    return filled.group_by("environment", "kind", maintain_order=True).agg(
        share.mean().alias("share"),
        (share.std(ddof=1) / pl.len().sqrt()).alias("stderr"),
        pl.len().cast(pl.Int64).alias("seeds"),
    )
