"""Differences between methods with their intervals: what crosses the line at 0 may be chance."""

from __future__ import annotations

import plotly.graph_objects as go
import polars as pl

from coevolve_lab.figures import style

_TITLE = "Differences, paired by seed"
_AXIS = "percentage points (thick: one standard error, thin: 95% interval)"


def paired_gains(gains: pl.DataFrame, title: str = _TITLE, dark: bool = False) -> go.Figure:
    """A line for each pair of methods and a mark for each column, thick bar the standard error, thin bar the interval.

    gains: columns other, first, column, gain, stderr (null for one seed), low, high, all in [-1, 1].
    """
    if gains.is_empty():
        return style.no_data(title, "finish runs of two methods with one seed", dark)
    labelled = gains.with_columns(pair=pl.format("{} - {}", "other", "first"))
    pairs = labelled["pair"].unique(maintain_order=True).to_list()
    columns = labelled["column"].unique(maintain_order=True).to_list()
    made = style.figure(title, _AXIS, dark=dark, height=150 + (26 + 14 * len(columns)) * len(pairs))
    made.add_vline(x=0, line={"color": style.ink(dark), "width": 1, "dash": "dot"})
    for index, column in enumerate(columns):
        look, own = style.series_look(index), labelled.filter(pl.col("column") == column)
        offset = 0.0 if len(columns) == 1 else 0.56 * (index / (len(columns) - 1) - 0.5)
        y = [pairs.index(pair) + offset for pair in own["pair"]]
        middle = 100 * own["gain"]
        for low, high, width in (
            (own["low"], own["high"], 1.2),
            (own["gain"] - own["stderr"], own["gain"] + own["stderr"], 4.0),
        ):
            made.add_scatter(
                x=[end for a, b in zip(low, high, strict=True) for end in _ends(a, b)],
                y=[value for value in y for _ in range(3)],
                mode="lines",
                line={"color": look.color, "width": width},
                showlegend=False,
                legendgroup=column,
                hoverinfo="skip",
            )
        made.add_scatter(
            x=middle,
            y=y,
            mode="markers",
            marker={**style.point(look, 10), "line": {"width": 1, "color": style.paper(dark)}},
            name=column,
            legendgroup=column,
            showlegend=len(columns) > 1,
            hovertemplate=f"{column}: %{{x:+.1f}} points<extra></extra>",
        )
    made.update_yaxes(
        tickvals=list(range(len(pairs))), ticktext=pairs, range=[len(pairs) - 0.5, -0.5], rangemode="normal"
    )
    made.update_yaxes(showgrid=False)
    ends = [0.0, *gains["low"].drop_nulls(), *gains["high"].drop_nulls(), *gains["gain"]]
    room = 0.05 * (max(ends) - min(ends))
    return made.update_xaxes(
        showgrid=True, tickformat="+", range=[100 * (min(ends) - room), 100 * (max(ends) + room)] if room else None
    )


def _ends(low: float | None, high: float | None) -> list[float | None]:
    """A stroke between two values in percentage points, and a gap after it."""
    return [None if low is None else 100 * low, None if high is None else 100 * high, None]
