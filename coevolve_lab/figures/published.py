"""What the paper published, drawn over a figure of one's own run so that nobody takes one for the other.

Published values are hollow marks on a thin dotted line, or hollow hatched bars, in the colour of the text and never in
that of a series; their names in the legend begin with "published, arXiv:2604.15840". They are of other models, mostly
on other benchmarks, so the figures say how a curve runs there, not what one's own should reach. A figure without own
data is left as it is: published values alone would look like a result.
"""

from __future__ import annotations

from collections.abc import Iterable

import plotly.graph_objects as go

from coevolve_lab import paper
from coevolve_lab.figures import style

_SYMBOLS = ("circle-open", "square-open", "diamond-open", "triangle-up-open")
_HATCHES = ("/", "\\", "x", "-")
_HOLLOW = "rgba(0,0,0,0)"
_LEFT = {"row": 1, "col": 1}


def overlay_scores(figure: go.Figure, methods: Iterable[str] = ("coevolve", "grpo"), dark: bool = False) -> go.Figure:
    """Add the paper's figure 3a (AppWorld, scores in [0, 1]) to ``score_per_step``; changes the figure, returns it."""
    rows = paper.figure("3a")
    for index, method in enumerate(methods if figure.data else ()):
        own = rows.filter(rows["method"] == method)
        if own.is_empty():
            raise ValueError(f"figure 3a has no '{method}'; it has {', '.join(rows['method'].unique().sort())}")
        add_points(figure, own["step"], own["score"], f"{method}, {own['benchmark'][0]}", index, dark)
    return figure


def overlay_signals(figure: go.Figure, dark: bool = False) -> go.Figure:
    """Add figure 3b (signals of all kinds) to the left panel of ``signals_per_round``; changes and returns the figure.

    The paper counts training steps; a round is F = 10 of them there (table 9).
    """
    if figure.data:
        rows = paper.figure("3b")
        add_points(figure, rows["step"] / _period(), rows["signals"], "all kinds", dark=dark, where=_LEFT)
    return figure


def overlay_pass_rate(figure: go.Figure, dark: bool = False) -> go.Figure:
    """Add figure 3d (share of signal-driven tasks that pass) to the left panel of ``pass_rate``, by round as above."""
    if figure.data:
        rows = paper.figure("3d")
        add_points(figure, rows["step"] / _period(), rows["pass_rate"], "pass rate", dark=dark, where=_LEFT)
    return figure


def add_points(
    figure: go.Figure,
    x: Iterable[object],
    y: Iterable[object],
    what: str,
    index: int = 0,
    dark: bool = False,
    where: dict[str, int] | None = None,
) -> None:
    """One published series as hollow marks on a thin dotted line. index: which look; where: row and col of a panel."""
    figure.add_scatter(
        x=list(x),
        y=list(y),
        mode="lines+markers",
        line={"color": style.ink(dark), "dash": "dot", "width": 1},
        marker={"color": style.ink(dark), "symbol": _SYMBOLS[index % len(_SYMBOLS)], "size": 10, "line": {"width": 2}},
        name=label(what),
        hovertemplate=f"%{{x}}: %{{y}} {label(what)}<extra></extra>",
        **(where or {}),
    )


def bar(index: int = 0, dark: bool = False) -> dict[str, object]:
    """The ``marker`` of a bar trace of published values: hollow and hatched."""
    shape = {"shape": _HATCHES[index % len(_HATCHES)], "fgcolor": style.ink(dark), "size": 6, "solidity": 0.15}
    return {
        "color": _HOLLOW,
        "pattern": {**shape, "bgcolor": _HOLLOW},
        "line": {"color": style.ink(dark), "width": 1.5},
    }


def label(what: str) -> str:
    """How a published series is called in a legend."""
    return f"{paper.LABEL}: {what}"


def _period() -> int:
    """Training steps between two evolutions in the paper (F)."""
    settings = dict(paper.table(9).select("setting", "value").iter_rows())
    return int(settings["generation_frequency_F"])
