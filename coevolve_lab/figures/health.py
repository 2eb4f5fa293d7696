"""What tells a healthy policy update from a sick one, step by step."""

from __future__ import annotations

import plotly.graph_objects as go
import polars as pl

from coevolve_lab.figures import style

_TITLE = "Health of the policy updates"


def policy_health(updates: pl.DataFrame, dark: bool = False) -> go.Figure:
    """Six panels over training steps.

    updates: the columns of ``Update``. Groups without variance teach nothing (all failed, or all solved); a log-prob
    gap far from 0 means that the sampler and the trainer do not compute the same policy, and is shown of batches alone
    that are not stale.
    """
    if updates.is_empty():
        return style.no_data(_TITLE, "train for a step", dark)
    rows = updates.sort("step")
    groups = rows["groups"].clip(1)
    names = [
        "KL to the reference",
        "clipped tokens",
        "groups without variance",
        "entropy",
        "log-prob gap",
        "gradient norm",
    ]
    made = style.panels(_TITLE, names, 2, 3, dark, height=520)
    look = style.OTHERS[0]
    series = [
        (1, 1, rows["kl"]),
        (1, 2, rows["clip_fraction"]),
        (2, 1, rows["entropy"]),
        (2, 2, rows.select(pl.when(pl.col("staleness_largest").fill_null(0) == 0).then("logprob_gap")).to_series()),
        (2, 3, rows["gradient_norm"]),
    ]
    for row, column, values in series:
        made.add_scatter(
            x=rows["step"],
            y=values,
            mode="lines" if rows.height > 1 else "markers",
            line=style.line(look, width=1.8),
            connectgaps=True,
            showlegend=False,
            hovertemplate="step %{x}: %{y:.3g}<extra></extra>",
            row=row,
            col=column,
        )
    flat = {"all failed": ("groups_all_failed", "discarded"), "all solved": ("groups_all_solved", "accepted")}
    for name, (source, outcome) in flat.items():
        look = style.NAMED[outcome]
        made.add_scatter(
            x=rows["step"],
            y=rows[source] / groups,
            mode="lines",
            stackgroup="without variance",
            line={"color": look.color, "width": 1.5},
            fillpattern={"shape": look.pattern, "solidity": 0.3, "size": 7},
            name=name,
            hovertemplate=f"step %{{x}}: %{{y:.0%}} {name}<extra></extra>",
            row=1,
            col=3,
        )
    for panel in (2, 3):
        made.update_yaxes(tickformat="~%", row=1, col=panel)
    made.update_xaxes(title_text="training step", row=2)
    return made.update_layout(margin_t=112, legend={"x": 1, "xanchor": "right", "y": 1.07})
