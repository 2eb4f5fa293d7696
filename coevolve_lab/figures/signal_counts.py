"""How many weakness signals of which kind each round found (figures 3b and 4 of the paper)."""

from __future__ import annotations

import plotly.graph_objects as go
import polars as pl

from coevolve_lab.figures import style

_TITLE = "Signals per round"
_FIRST = ("forgetting", "boundary", "rare")


def signals_per_round(signals: pl.DataFrame, runs: int = 1, dark: bool = False) -> go.Figure:
    """Left: marks by kind, stacked. Right: the same as shares of the round's marks. A trajectory may carry several.

    signals: columns round, kind. runs: how many runs they are of; numbers of marks are means over runs.
    """
    if signals.is_empty():
        return style.no_data(_TITLE, "signals come with the first round of training", dark)
    counts = signals.group_by("round", "kind").len().sort("round")
    rounds = counts["round"].unique().sort()
    title = _TITLE if runs == 1 else f"{_TITLE}, mean of {runs} runs"
    totals = counts.group_by("round").agg(pl.col("len").sum()).sort("round")["len"]
    kinds = sorted(counts["kind"].unique(), key=lambda k: (k not in _FIRST, _FIRST.index(k) if k in _FIRST else 0, k))
    made = style.panels(title, ["marked trajectories", "share of marks"], 1, 2, dark, height=400)
    for kind, look in style.looks(kinds).items():
        own = rounds.to_frame().join(counts.filter(pl.col("kind") == kind), on="round", how="left").sort("round")
        number = own["len"].fill_null(0) / runs
        marker = style.bar(look, dark)
        share = own["len"].fill_null(0) / totals
        hover = f"round %{{x}}: %{{y:.3~f}} {kind}<extra></extra>"
        made.add_bar(x=rounds, y=number, marker=marker, name=kind, legendgroup=kind, hovertemplate=hover, row=1, col=1)
        made.add_bar(
            x=rounds,
            y=share,
            marker=marker,
            name=kind,
            legendgroup=kind,
            showlegend=False,
            hovertemplate=f"round %{{x}}: %{{y:.0%}} {kind}<extra></extra>",
            row=1,
            col=2,
        )
    made.update_layout(barmode="stack", margin_t=112, legend_y=1.1)
    made.update_xaxes(title_text="round", tickformat="d", nticks=min(12, len(rounds) + 1))
    return made.update_yaxes(tickformat=".0%", range=[0, 1], row=1, col=2)
