"""One look for all figures, and for the widgets around them: colours, dashes, patterns, templates.

Colours are Okabe and Ito's, which people with colour-blindness tell apart; every series also differs in dash, marker or
pattern, so that a figure survives a grey print. Text is sized for figures 700-900 pixels wide, as in a notebook cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go
from plotly.subplots import make_subplots

BLACK, GREY = "#000000", "#8C8C8C"
ORANGE, SKY, GREEN, YELLOW = "#E69F00", "#56B4E9", "#009E73", "#F0E442"
BLUE, VERMILLION, PURPLE = "#0072B2", "#D55E00", "#CC79A7"


@dataclass(frozen=True)
class Look:
    """How one series is drawn wherever it appears. pattern: fill of bars; dash and marker: of lines."""

    color: str
    pattern: str = ""
    dash: str = "solid"
    marker: str = "circle"


# What the ring knows by name always looks the same; anything else (a user's own signal) takes the next of OTHERS.
NAMED: dict[str, Look] = {
    "forgetting": Look(BLUE, "/", "solid", "circle"),
    "boundary": Look(ORANGE, "", "dash", "square"),
    "rare": Look(GREEN, "x", "dot", "diamond"),
    "accepted": Look(GREEN, "", "solid", "circle"),
    "retained": Look(ORANGE, "/", "dash", "square"),
    "discarded": Look(GREY, "x", "dot", "x"),
    "held": Look(PURPLE, ".", "dashdot", "x"),
    "benchmark": Look(GREY, "-", "dash", "square"),
    "seed": Look(SKY, "", "solid", "circle"),
    "feedback": Look(VERMILLION, "/", "solid", "diamond"),
    "random": Look(PURPLE, "x", "dot", "x"),
    "uniform": Look(GREEN, ".", "dashdot", "cross"),
    "import": Look(YELLOW, "|", "longdash", "star"),
    "assemble": Look(GREY, "/"),
    "rollout": Look(BLUE),
    "train": Look(SKY, "/"),
    "signals": Look(BLUE, "x"),
    "reflect": Look(PURPLE, "."),
    "explore": Look(VERMILLION),
    "abstract": Look(YELLOW, "/"),
    "validate": Look(ORANGE, "x"),
    "evaluate": Look(GREY),
}
OTHERS: tuple[Look, ...] = (
    Look(BLUE, "", "solid", "circle"),
    Look(VERMILLION, "/", "dash", "square"),
    Look(GREEN, "x", "dot", "diamond"),
    Look(PURPLE, ".", "dashdot", "x"),
    Look(ORANGE, "\\", "longdash", "cross"),
    Look(SKY, "-", "longdashdot", "star"),
    Look(GREY, "+", "solid", "triangle-up"),
)


def looks(names: Sequence[str]) -> dict[str, Look]:
    """A look for each name; names that are not known get colours and patterns of their own while there are any."""
    taken = [NAMED[name] for name in names if name in NAMED]
    colors, patterns = {look.color for look in taken}, {look.pattern for look in taken}
    free = [look for look in OTHERS if look.color not in colors and look.pattern not in patterns] or list(OTHERS)
    unknown = [name for name in names if name not in NAMED]
    return {name: NAMED[name] if name in NAMED else free[unknown.index(name) % len(free)] for name in names}


def series_look(index: int) -> Look:
    """The look of one of many series: after a round of ``OTHERS`` colours return with other dashes and marks."""
    look = OTHERS[index % len(OTHERS)]
    other = OTHERS[(index + index // len(OTHERS)) % len(OTHERS)]
    return Look(look.color, other.pattern, other.dash, other.marker)


def ink(dark: bool) -> str:
    """Colour of text and of lines that belong to no series."""
    return "#E8E8E8" if dark else "#222222"


def paper(dark: bool) -> str:
    return "#1E1E1E" if dark else "#FFFFFF"


def template(dark: bool = False) -> go.layout.Template:
    """Plain axes, faint horizontal grid, legend on top, the same margins everywhere."""
    grid = "#3A3A3A" if dark else "#E6E6E6"
    axis: dict[str, object] = {
        "gridcolor": grid,
        "linecolor": ink(dark),
        "zeroline": False,
        "automargin": True,
        "exponentformat": "e",
    }
    axis["title"] = {"standoff": 8, "font": {"size": 14}}
    return go.layout.Template(
        layout={
            "font": {"family": "Helvetica, Arial, sans-serif", "size": 14, "color": ink(dark)},
            "title": {"x": 0.0, "xref": "paper", "xanchor": "left", "y": 0.97, "yanchor": "top", "font": {"size": 17}},
            "paper_bgcolor": paper(dark),
            "plot_bgcolor": paper(dark),
            "xaxis": {**axis, "showgrid": False, "showline": True, "ticks": "outside"},
            "yaxis": {**axis, "rangemode": "tozero"},
            "legend": {
                "orientation": "h",
                "x": 0,
                "xanchor": "left",
                "y": 1.02,
                "yanchor": "bottom",
                "traceorder": "normal",
            },
            "margin": {"l": 64, "r": 24, "t": 92, "b": 56},
            "hoverlabel": {"font": {"size": 13}},
            "bargap": 0.25,
        }
    )


def figure(title: str, x: str = "", y: str = "", dark: bool = False, height: int = 400) -> go.Figure:
    """An empty figure in the house's look."""
    made = go.Figure(layout={"template": template(dark), "title": {"text": title}, "height": height})
    return made.update_xaxes(title_text=x).update_yaxes(title_text=y)


def panels(title: str, names: Sequence[str], rows: int, columns: int, dark: bool, height: int) -> go.Figure:
    """An empty grid of panels in the house's look, filled row by row."""
    made = make_subplots(rows, columns, subplot_titles=list(names), vertical_spacing=0.2, horizontal_spacing=0.11)
    made.update_layout(template=template(dark), title={"text": title}, height=height)
    return made.update_annotations(font_size=14)


def no_data(title: str, what: str, dark: bool = False) -> go.Figure:
    """What a figure shows before there is anything to show: ``what`` says which step brings it."""
    made = figure(title, dark=dark)
    made.add_annotation(text=f"no data yet: {what}", showarrow=False, x=0.5, y=0.5, xref="paper", yref="paper")
    made.update_annotations(font_size=16)
    return made.update_xaxes(visible=False).update_yaxes(visible=False)


def bar(look: Look, dark: bool = False) -> dict[str, object]:
    """The ``marker`` of a bar trace."""
    shape = {"shape": look.pattern, "fillmode": "overlay", "fgcolor": paper(dark), "size": 7, "solidity": 0.3}
    return {"color": look.color, "pattern": shape, "line": {"color": paper(dark), "width": 1}}


def line(look: Look, width: float = 2.5) -> dict[str, object]:
    return {"color": look.color, "dash": look.dash, "width": width}


def point(look: Look, size: int = 8) -> dict[str, object]:
    return {"color": look.color, "symbol": look.marker, "size": size}


def faded(color: str, alpha: float) -> str:
    """A hex colour as rgba text."""
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"
