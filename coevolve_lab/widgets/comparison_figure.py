"""The one figure of a comparison: panels over the same axes, a run in the same colour, dash and marker in all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go
import polars as pl
from plotly.subplots import make_subplots

from coevolve_lab.figures import style
from coevolve_lab.figures.comparison import Counts, cells
from coevolve_lab.widgets.comparison_queries import Shared, Side
from coevolve_lab.widgets.figure import LiveFigure
from coevolve_lab.widgets.progress_figure import WIDTH

HEIGHT = 860
_KINDS = ("forgetting", "boundary", "rare")
_PANELS = {  # (row, first of twelve columns) -> columns, title, x axis
    (1, 1): (8, "Score (marked, ± standard error) and training reward (thin)", "training step"),
    (1, 9): (4, "Tasks in the task set", "round"),
    (2, 1): (3, "Signals: forgetting", "round"),
    (2, 4): (3, "Signals: boundary", "round"),
    (2, 7): (3, "Signals: rare", "round"),
    (2, 10): (3, "Signals of all kinds", "round"),
    (3, 1): (4, "Groups without variance", "training step"),
    (3, 5): (4, "Wall-clock so far", "round"),
    (3, 9): (4, "Tasks by who solves them", ""),
}
_SHADE = "rgba(128,128,128,0.2)"


def comparison_figure() -> LiveFigure:
    """The empty figure; ``show`` fills it."""
    grid: list[list[dict[str, Any] | None]] = [[None] * 12 for _ in range(3)]
    for (row, column), (columns, _, _) in _PANELS.items():
        grid[row - 1][column - 1] = {"colspan": columns}
    titles = [title for _, title, _ in _PANELS.values()]
    empty = make_subplots(3, 12, specs=grid, subplot_titles=titles, horizontal_spacing=0.06, vertical_spacing=0.135)
    empty.update_layout(
        template=style.template(False),
        width=WIDTH,
        height=HEIGHT,
        barmode="group",
        bargap=0.2,
        margin={"l": 60, "r": 24, "t": 84, "b": 48},
        font_size=12,
        uirevision="kept",  # zoom and hidden traces survive updates
        legend={"x": 0, "y": 1.105, "xanchor": "left", "yanchor": "top", "font": {"size": 13}},
    )
    for ((row, column), (_, _, x)), title in zip(_PANELS.items(), empty.layout.annotations, strict=True):
        area = empty.get_subplot(row, column)
        title.update(x=area.xaxis.domain[0], xanchor="left", yshift=4, font_size=14)
        empty.update_xaxes(title_text=x, title_font_size=12, row=row, col=column)
        if x == "round":
            empty.update_xaxes(tickformat="d", row=row, col=column)
    empty.update_yaxes(tickformat="~%", row=3, col=1)
    empty.update_yaxes(title_text="seconds", title_font_size=12, row=3, col=5)
    empty.update_xaxes(visible=False, row=3, col=9)
    empty.update_yaxes(visible=False, autorange="reversed", row=3, col=9)
    return LiveFigure(empty)


def show(
    figure: LiveFigure, sides: Sequence[Side], shared: Sequence[Shared], crossed: Mapping[str, Counts], smoothing: float
) -> None:
    """Put the runs into the figure. shared: what others have in
    common with the first run; crossed: outcomes against the first run's."""
    with figure.batch():
        for side, look in zip(sides, style.OTHERS, strict=False):
            _steps(figure, side, look, smoothing)
            _rounds(figure, side, look)
        _key(figure, sides, shared)
    if crossed or "crossed" in figure.traces:
        drawn = cells(sides[0].label, crossed)
        x, y = drawn.pop("x"), drawn.pop("y")
        change = {name: drawn.pop(name) for name in ("z", "text")}
        with figure.batch():  # apart: a batch gives all its traces the same properties, and lines have no z
            figure.put("crossed", x, y, go.Heatmap, 3, 9, change=change, **drawn)
    _shade(figure.widget, shared)


def _steps(figure: LiveFigure, side: Side, look: style.Look, smoothing: float) -> None:
    """Against training steps: scores, rewards raw and smoothed, groups without variance."""
    group: dict[str, Any] = {"legendgroup": side.label, "showlegend": False}
    updates, scores = side.updates, side.evaluations
    faint = {"color": look.color, "size": 3, "opacity": 0.35}
    figure.put(
        f"raw {side.label}", updates["step"], updates["reward"], row=1, col=1, mode="markers", marker=faint,
        hoverinfo="skip", **group,
    )  # fmt: skip
    smooth = updates["reward"].cast(pl.Float64).ewm_mean(alpha=1 - smoothing)
    for key, y, (row, column), width, what in (
        ("reward", smooth, (1, 1), 1.3, "reward, smoothed"),
        ("flat", updates["flat"], (3, 1), 1.8, "without variance"),
    ):
        figure.put(
            f"{key} {side.label}", updates["step"], y, row=row, col=column, mode="lines", line=style.line(look, width),
            hovertemplate=f"step %{{x}}: %{{y:.3f}} {what}<extra>{side.label}</extra>", **group,
        )  # fmt: skip
    figure.put(
        f"score {side.label}", scores["step"], scores["score"], row=1, col=1, name=side.label, mode="lines+markers",
        line=style.line(look), marker=style.point(look, 9), legendgroup=side.label,
        change={"error_y.array": scores["stderr"].to_list()},
        hovertemplate=f"step %{{x}}: score %{{y:.3f}}<extra>{side.label}</extra>",
    )  # fmt: skip


def _rounds(figure: LiveFigure, side: Side, look: style.Look) -> None:
    """Against rounds: size of D_t, signals by kind, seconds."""
    group: dict[str, Any] = {"legendgroup": side.label, "showlegend": False}
    for key, frame, (row, column) in (("size", side.size, (1, 9)), ("seconds", side.seconds, (3, 5))):
        figure.put(
            f"{key} {side.label}", frame["round"], frame[key], row=row, col=column, mode="lines+markers",
            line=style.line(look, 1.8), marker=style.point(look, 6),
            hovertemplate=f"round %{{x}}: %{{y:,.0f}}<extra>{side.label}</extra>", **group,
        )  # fmt: skip
    total = side.signals.group_by("round").agg(pl.col("n").sum()).sort("round")
    own = {kind: side.signals.filter(pl.col("kind") == kind) for kind in _KINDS}
    for column, (kind, frame) in zip((1, 4, 7, 10), {**own, "all": total}.items(), strict=True):
        figure.put(
            f"{kind} {side.label}", frame["round"], frame["n"], go.Bar, 2, column, marker=style.bar(look),
            offsetgroup=side.label, hovertemplate=f"round %{{x}}: %{{y:,.0f}}<extra>{side.label}</extra>", **group,
        )  # fmt: skip


def _key(figure: LiveFigure, sides: Sequence[Side], shared: Sequence[Shared]) -> None:
    """What the shade means, in the legend."""
    change = {"name": f"history shared with {sides[0].label}", "visible": bool(shared)}
    marker = {"symbol": "square", "size": 12, "color": _SHADE}
    figure.put("shared", [None], [None], row=1, col=1, mode="markers", marker=marker, change=change)


def _shade(widget: go.FigureWidget, shared: Sequence[Shared]) -> None:
    """Grey behind what is shared, in every panel over steps or rounds; darker where more runs share it."""
    shapes: list[dict[str, Any]] = []
    for (row, column), (_, _, x) in _PANELS.items():
        axes = widget.get_subplot(row, column)
        half_bar = 0.5 if row == 2 else 0
        for until in shared if x else ():
            start, end = (0, until.step) if x == "training step" else (-half_bar, until.round + half_bar)
            shapes.append(
                {
                    "type": "rect", "layer": "below", "line": {"width": 0}, "fillcolor": _SHADE,
                    "x0": start, "x1": end, "xref": axes.xaxis.plotly_name.replace("axis", ""),
                    "y0": 0, "y1": 1, "yref": axes.yaxis.plotly_name.replace("axis", "") + " domain",
                }
            )  # fmt: skip
    widget.layout.shapes = shapes
