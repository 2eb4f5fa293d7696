"""What validation made of the drafts of each round (figure 3d of the paper), and why drafts fell."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go
import polars as pl

from coevolve_lab.figures import style

SURPLUS = "surplus"
_TITLE = "Validation of drafted tasks"
_OUTCOMES = ("accepted", "held", "retained", "discarded")
_MOST_REASONS = 8


def pass_rate(verdicts: pl.DataFrame, dark: bool = False) -> go.Figure:
    """Left: share of a round's drafts by outcome, the accepted share written out. Right: reasons of those not accepted.

    verdicts: columns draft_id, round, outcome, reason, and seed with several runs (``last_verdicts``). Held drafts
    passed, too, and were left to a person. Drafts beyond a round's quota ("surplus") were never executed: they are
    counted in the title and in no share.
    """
    verdicts = last_verdicts(verdicts)
    surplus = verdicts.filter(pl.col("reason") == SURPLUS).height
    verdicts = verdicts.filter(pl.col("reason") != SURPLUS)
    if verdicts.is_empty():
        return style.no_data(_TITLE, "drafts are validated at the end of a round", dark)
    counts = verdicts.group_by("round", "outcome").len()
    totals = verdicts.group_by("round").len().sort("round")
    accepted = verdicts.filter(pl.col("outcome") == "accepted").height
    held = verdicts.filter(pl.col("outcome") == "held").height
    title = f"{_TITLE}: {accepted} of {verdicts.height} accepted" + (f", {held} held" if held else "")
    title += f" ({surplus} more not needed)" if surplus else ""
    made = style.panels(title, ["share of drafts", "why not accepted"], 1, 2, dark, height=420)
    outcomes = [outcome for outcome in _OUTCOMES if outcome != "held" or held]  # few runs are reviewed
    for outcome in outcomes:
        own = totals.select("round").join(counts.filter(pl.col("outcome") == outcome), on="round", how="left")
        number = own.sort("round")["len"].fill_null(0)
        share = number / totals["len"]
        made.add_bar(
            x=totals["round"],
            y=share,
            customdata=number,
            marker=style.bar(style.NAMED[outcome], dark),
            text=[f"{s:.0%}" for s in share] if outcome == "accepted" and totals.height <= 15 else None,
            textposition="inside",
            insidetextanchor="start",
            textangle=0,
            textfont_color="#FFFFFF",
            name=outcome,
            legendgroup=outcome,
            hovertemplate=f"round %{{x}}: %{{y:.0%}} {outcome} (%{{customdata}})<extra></extra>",
            row=1,
            col=1,
        )
    _add_reasons(made, verdicts.filter(pl.col("outcome") != "accepted"), outcomes[1:], dark)
    made.update_layout(barmode="stack", margin_t=112, legend_y=1.1)
    made.update_xaxes(title_text="round", tickformat="d", nticks=min(12, totals.height + 1), row=1, col=1)
    made.update_xaxes(title_text="drafts", row=1, col=2)
    return made.update_yaxes(tickformat=".0%", range=[0, 1], row=1, col=1)


def last_verdicts(verdicts: pl.DataFrame) -> pl.DataFrame:
    """The last verdict on each draft: whoever calls a stage again validates the same draft again.

    verdicts: oldest first, column draft_id; with a column seed, a draft is one of that seed's run.
    """
    one = ["draft_id", *(["seed"] if "seed" in verdicts.columns else [])]
    return verdicts.unique(one, keep="last", maintain_order=True)


def _add_reasons(made: go.Figure, fallen: pl.DataFrame, outcomes: Sequence[str], dark: bool) -> None:
    reasons = fallen.group_by("reason").len().sort("len", "reason", descending=[True, False]).head(_MOST_REASONS)
    order = reasons["reason"].to_list()[::-1]
    for outcome in outcomes:
        own = fallen.filter(pl.col("outcome") == outcome)["reason"].value_counts(name="n")
        number = dict(own.iter_rows())
        made.add_bar(
            x=[number.get(reason, 0) for reason in order],
            y=order,
            orientation="h",
            marker=style.bar(style.NAMED[outcome], dark),
            name=outcome,
            legendgroup=outcome,
            showlegend=False,
            hovertemplate=f"%{{y}}: %{{x}} {outcome}<extra></extra>",
            row=1,
            col=2,
        )
