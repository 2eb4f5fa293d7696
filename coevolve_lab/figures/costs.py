"""Where the time goes (table 7 of the paper; design rule 11)."""

from __future__ import annotations

from collections.abc import Collection

import plotly.graph_objects as go
import polars as pl

from coevolve_lab.figures import style

_TITLE = "Wall-clock by stage"
EVOLUTION_STAGES = ("reflect", "explore", "abstract", "validate")
GOAL = 0.10  # design rule 11: stages 2 + 3 aim at a tenth of the wall-clock at most


def cost_share(
    stage_costs: pl.DataFrame, evolution: Collection[str] = EVOLUTION_STAGES, dark: bool = False
) -> go.Figure:
    """Left: seconds by stage and round. Right: share of stages 2 + 3 in each round's wall-clock, with the goal.

    stage_costs: columns round, stage, seconds; everything in it counts towards the whole, so leave out what should
    not (seeding explores in round 0, for one). evolution: the stages that make up stages 2 + 3.
    """
    if stage_costs.is_empty():
        return style.no_data(_TITLE, "every stage that runs adds to it", dark)
    is_evolution = pl.col("stage").is_in(list(evolution))
    total = float(stage_costs["seconds"].sum())
    overall = float(stage_costs.filter(is_evolution)["seconds"].sum()) / total if total else 0.0
    title = f"{_TITLE}: stages 2 + 3 take {overall:.1%} of {total:,.0f} s"
    made = style.panels(title, ["seconds", "share of stages 2 + 3"], 1, 2, dark, height=420)
    known = list(style.NAMED)
    stages = sorted(stage_costs["stage"].unique(), key=lambda s: (known.index(s) if s in known else len(known), s))
    rounds = stage_costs["round"].unique().sort()
    for stage, look in style.looks(stages).items():
        seconds = stage_costs.filter(pl.col("stage") == stage).group_by("round").agg(pl.col("seconds").sum())
        own = rounds.to_frame().join(seconds, on="round", how="left").sort("round")["seconds"].fill_null(0.0)
        hover = f"round %{{x}}: %{{y:.1f}} s {stage}<extra></extra>"
        made.add_bar(x=rounds, y=own, marker=style.bar(look, dark), name=stage, hovertemplate=hover, row=1, col=1)
    share = stage_costs.group_by("round").agg(pl.col("seconds").filter(is_evolution).sum() / pl.col("seconds").sum())
    share = share.sort("round")
    look = style.OTHERS[1]
    made.add_scatter(
        x=share["round"],
        y=share["seconds"],
        mode="lines+markers",
        line=style.line(look),
        marker=style.point(look),
        showlegend=False,
        hovertemplate="round %{x}: %{y:.1%}<extra></extra>",
        row=1,
        col=2,
    )
    ink = style.ink(dark)
    goal = {"line_dash": "dot", "line_color": ink, "annotation_text": f"goal: {GOAL:.0%}", "annotation_font_color": ink}
    made.add_hline(y=GOAL, row=1, col=2, annotation_position="bottom right", **goal)
    right = {"orientation": "v", "x": 1.02, "y": 1, "yanchor": "top", "traceorder": "reversed"}
    made.update_layout(barmode="stack", legend=right)
    made.update_xaxes(title_text="round", tickformat="d", nticks=min(12, len(rounds) + 1))
    return made.update_yaxes(tickformat=".0%", row=1, col=2)
