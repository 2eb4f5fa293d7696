"""Who solves which tasks: two policies crossed on one split (table 8 of the paper)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go

from coevolve_lab.figures import style

Counts = tuple[int, int, int, int]  # tasks solved by both, by the first only, by the other only, by neither

_TITLE = "Tasks by who solves them"
_LONGEST = 18  # characters of a label in a cell
# One hue from light to dark, so that it reads in grey; never so dark or so light that one ink fails on it.
_SCALE = [[0.0, "#EAF3FA"], [1.0, "#8FC1E3"]]
_INK = "#111111"


def cross_comparison(first: str, counts: Mapping[str, Counts], dark: bool = False) -> go.Figure:
    """A field of two by two for each policy that is compared with ``first``: both right and only the first right above,
    only the other right and neither below; numbers of tasks and percent are written out.

    counts: by the other's label. Without counts, a figure that says what is missing.
    """
    if not counts:
        return style.no_data(_TITLE, "evaluate two policies on one split", dark)
    made = style.figure(f"{_TITLE}: {first} against {', '.join(counts)}", dark=dark, height=120 + 170 * len(counts))
    made.add_trace(go.Heatmap(**cells(first, counts)))
    made.update_layout(margin={"t": 64, "b": 24, "l": 24})
    return made.update_xaxes(visible=False).update_yaxes(visible=False, autorange="reversed")


def cells(first: str, counts: Mapping[str, Counts]) -> dict[str, Any]:
    """The properties of the heatmap behind ``cross_comparison``: ``z`` holds shares, ``text`` what is written."""
    shares: list[list[float]] = []
    texts: list[list[str]] = []
    for other, (both, only_first, only_other, neither) in counts.items():
        total = max(1, both + only_first + only_other + neither)
        for row in (
            (("both", both), (f"only {_short(first)}", only_first)),
            ((f"only {_short(other)}", only_other), ("neither", neither)),
        ):
            shares.append([n / total for _, n in row])
            texts.append([f"{name}<br><b>{n}</b> ({n / total:.0%})" for name, n in row])
    return {
        "x": [0, 1],
        "y": list(range(len(shares))),
        "z": shares,
        "text": texts,
        "texttemplate": "%{text}",
        "textfont": {"color": _INK, "size": 13},
        "colorscale": _SCALE,
        "zmin": 0,
        "zmax": 1,
        "showscale": False,
        "xgap": 3,
        "ygap": 3,
        "hoverinfo": "skip",
    }


def _short(label: str) -> str:
    if len(label) <= _LONGEST:
        return label
    return f"{label[: _LONGEST // 2 - 1]}…{label[-_LONGEST // 2 :]}"
