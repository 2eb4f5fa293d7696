"""The dashboard's one figure: nine panels over a run's progress, in the colours of the other figures."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go
import polars as pl
from plotly.subplots import make_subplots

from coevolve_lab.figures import style
from coevolve_lab.widgets.figure import LiveFigure
from coevolve_lab.widgets.progress_queries import Progress

WIDTH, HEIGHT, MOST_REASONS = 1080, 860, 6
_SIGNALS, _SHARES = 2, "Share of each round's signals"  # place of the panel in _NAMES, and its other name
_NAMES = [
    "Score and training reward", "Task set by origin",
    "Signals by kind", "Calls per task", "What became of the drafts",
    "Share of the wall-clock", "KL, clipped share, log-prob gap", "Groups without variance, and entropy",
]  # fmt: skip
_GRID: list[list[dict[str, Any] | None]] = [[{"colspan": 2}, None, {}], [{}, {}, {}], [{}, {}, {"secondary_y": True}]]
_ORIGINS = ("benchmark", "seed", "import", "feedback", "uniform", "random")
_KINDS = ("forgetting", "boundary", "rare")
_STAGES = ("rollout", "train", "signals", "reflect", "explore", "abstract", "validate")


def progress_figure() -> LiveFigure:
    """The empty figure; ``show`` fills it."""
    empty = make_subplots(
        3, 3, specs=_GRID, subplot_titles=_NAMES, horizontal_spacing=0.085, vertical_spacing=0.145
    )  # fmt: skip
    empty.update_layout(
        template=style.template(),
        width=WIDTH,  # a figure in a box of widgets does not learn of the box's width by itself
        height=HEIGHT,
        barmode="stack",
        margin={"l": 66, "r": 40, "t": 64, "b": 44},
        font_size=12,
        bargap=0.2,
        uirevision="kept",  # zoom and hidden traces survive updates
    )
    panels = [(row, column) for row in range(3) for column in range(3) if _GRID[row][column] is not None]
    for (row, column), title in zip(panels, empty.layout.annotations, strict=True):
        area = empty.get_subplot(row + 1, column + 1)
        left, top = area.xaxis.domain[0], area.yaxis.domain[1]
        title.update(x=left, xanchor="left", yshift=22, font_size=14)
        place = {"x": left, "y": top, "xanchor": "left", "yanchor": "bottom"}
        names = {"orientation": "h", "traceorder": "normal", "font": {"size": 11}, "itemwidth": 30}
        empty.update_layout({_legend(row, column): {**place, **names}})
    for row, column in ((2, 1), (1, 3)):
        empty.update_xaxes(title_text="round", tickformat="d", title_font_size=12, row=row, col=column)
    for row, column in ((1, 1), (3, 2), (3, 3)):
        empty.update_xaxes(title_text="training step", title_font_size=12, row=row, col=column)
    empty.update_xaxes(title_text="calls in the solution", title_font_size=12, row=2, col=2)
    empty.update_xaxes(title_text="drafts", title_font_size=12, row=2, col=3)
    empty.update_xaxes(tickformat="~%", row=3, col=1)
    empty.update_yaxes(tickformat="~%", row=2, col=2)
    empty.update_yaxes(tickformat="~%", row=3, col=3, secondary_y=False)
    empty.update_yaxes(showgrid=False, tickformat=".2~g", tickmode="auto", nticks=6, row=3, col=3, secondary_y=True)
    return LiveFigure(empty)


def show(figure: LiveFigure, seen: Progress, shares: bool = False) -> None:
    """Put what was seen into the figure, in one message to the browser. shares: signals as shares of their round."""
    with figure.batch():
        _scores(figure, seen)
        _stacked(figure, "kind", seen.signals, _KINDS, (2, 1), shares)
        _growth(figure, seen.tasks)
        _lengths(figure, seen.tasks)
        _drafts(figure, seen)
        _costs(figure, seen.stage_costs)
        _health(figure, seen.updates)
    title = _SHARES if shares else _NAMES[_SIGNALS]
    if figure.widget.layout.annotations[_SIGNALS].text != title:
        axis = figure.widget.get_subplot(2, 1).yaxis.plotly_name
        scale = {"tickformat": "~%", "range": [0, 1]} if shares else {"tickformat": "", "autorange": True}
        changes = {f"{axis}.{name}": value for name, value in scale.items()}
        figure.widget.plotly_relayout({**changes, f"annotations[{_SIGNALS}].text": title})


def _legend(row: int, column: int) -> str:
    number = 3 * row + column
    return f"legend{number + 1}" if number else "legend"


def _scores(figure: LiveFigure, seen: Progress) -> None:
    place: dict[str, Any] = {"row": 1, "col": 1, "legend": _legend(0, 0)}
    thin = {"color": style.GREY, "width": 1.2}
    reward = seen.updates
    figure.put("training reward (sampled)", reward["step"], reward["reward"], mode="lines", line=thin, **place)
    rows, look = seen.evaluations, style.OTHERS[0]
    edge: dict[str, Any] = {"mode": "lines", "line": {"width": 0}, "hoverinfo": "skip", "showlegend": False, **place}
    band: dict[str, Any] = {"fill": "tonexty", "fillcolor": style.faded(look.color, 0.18)}
    figure.put("score, upper", rows["step"], rows["score"] + rows["stderr"], **edge)
    figure.put("score, lower", rows["step"], rows["score"] - rows["stderr"], **edge, **band)
    drawn: dict[str, Any] = {"mode": "lines+markers", "line": style.line(look), "marker": style.point(look)}
    figure.put("score (greedy, ± standard error)", rows["step"], rows["score"], **drawn, **place)
    ends = [rows["step"][0], max(rows["step"][-1], reward["step"].max() or 0)] if rows.height else []
    dotted = {"color": style.VERMILLION, "dash": "dot", "width": 1.5}
    baseline = [rows["score"][0]] * len(ends) if ends else []
    figure.put("before training", ends, baseline, mode="lines", line=dotted, **place)


def _stacked(
    figure: LiveFigure,
    by: str,
    counts: pl.DataFrame,
    first: tuple[str, ...],
    at: tuple[int, int],
    shares: bool = False,
) -> None:
    """Bars by round, one on top of the other; what hovers over a bar says both its count and its share."""
    sums = counts.group_by("round").agg(pl.col("n").sum()).sort("round")
    rounds, totals, grid = sums["round"], sums["n"], sums.select("round")
    names = sorted(counts[by].unique(), key=lambda n: (first.index(n) if n in first else len(first), n))
    for name, look in style.looks(names).items():
        own = grid.join(counts.filter(pl.col(by) == name), on="round", how="left").sort("round")
        own = own.select("round", pl.col("n").fill_null(0)).with_columns(share=pl.col("n") / totals)
        figure.put(
            f"{by} {name}",
            rounds,
            own["share" if shares else "n"],
            go.Bar,
            *at,
            name=name,
            marker=style.bar(look),
            legend=_legend(at[0] - 1, at[1] - 1),
            hovertemplate="%{hovertext}<extra></extra>",
            change={"hovertext": [f"round {r}: {n:,} {name}, {share:.0%}" for r, n, share in own.iter_rows()]},
        )


def _growth(figure: LiveFigure, tasks: pl.DataFrame) -> None:
    counts = tasks.group_by("round", "origin").agg(pl.col("n").sum())
    grid = counts.select("round").unique().join(counts.select("origin").unique(), how="cross")
    grid = grid.join(counts, on=["round", "origin"], how="left").sort("round", "origin")
    size = grid.with_columns(pl.col("n").fill_null(0).cum_sum().over("origin"))
    _stacked(figure, "origin", size, _ORIGINS, (1, 3))


def _lengths(figure: LiveFigure, tasks: pl.DataFrame) -> None:
    original = pl.col("origin").is_in(["benchmark", "seed"])
    lengths = tasks.group_by("calls", original.alias("original")).agg(pl.col("n").sum()).sort("calls")
    for name, wanted, look in (("original", True, style.OTHERS[0]), ("synthesized", False, style.OTHERS[1])):
        own = lengths.filter(pl.col("original") == wanted)
        figure.put(
            name,
            own["calls"],
            own["n"] / max(1, own["n"].sum()),
            go.Bar,
            2,
            2,
            marker=style.bar(look),
            opacity=0.85,
            offsetgroup=name,
            legend=_legend(1, 1),
            hovertemplate=f"%{{x}} calls: %{{y:.1%}} of {name} tasks<extra></extra>",
        )


def _drafts(figure: LiveFigure, seen: Progress) -> None:
    """A funnel lying down: all drafts on top, then what was accepted, retained, held, discarded for which reason."""
    drafts = seen.verdicts
    by_outcome = dict(drafts.group_by("outcome").agg(pl.col("n").sum()).iter_rows())
    fallen = drafts.filter(pl.col("outcome") == "discarded").head(MOST_REASONS)
    drafted = max(int(seen.drafts["n"].sum()), sum(by_outcome.values()))
    lines = [("drafted", drafted, "drafted")]
    lines += [(outcome, by_outcome.get(outcome, 0), outcome) for outcome in ("accepted", "retained")]
    lines += [("held", by_outcome["held"], "held")] if "held" in by_outcome else []
    lines += [(reason, n, "discarded") for reason, n in fallen.select("reason", "n").iter_rows()]
    outcomes = ("accepted", "retained", "held", "discarded")
    known = {"drafted": style.OTHERS[0], **{outcome: style.NAMED[outcome] for outcome in outcomes}}
    order = [label for label, _, _ in lines][::-1]
    for outcome, look in known.items():
        numbers = {label: n for label, n, kind in lines if kind == outcome}
        figure.put(
            f"outcome {outcome}",
            [numbers.get(label, 0) for label in order],
            order,
            go.Bar,
            2,
            3,
            name=outcome,
            orientation="h",
            showlegend=outcome == "discarded",
            marker=style.bar(look),
            legend=_legend(1, 2),
            hovertemplate="%{y}: %{x}<extra></extra>",
        )


def _costs(figure: LiveFigure, costs: pl.DataFrame) -> None:
    """Without preparing the run and without evaluations, which are not part of the ring."""
    seconds = {stage: n or 0.0 for stage, n in costs.select("stage", "seconds").iter_rows() if stage in _STAGES}
    total, order = max(1e-9, sum(seconds.values())), _STAGES[::-1]
    bars = [style.bar(style.NAMED[stage]) for stage in order]
    marker: dict[str, Any] = {"color": [bar["color"] for bar in bars]}
    figure.put(
        "stages",
        [seconds.get(stage, 0) / total for stage in order],
        order,
        go.Bar,
        3,
        1,
        orientation="h",
        showlegend=False,
        marker=marker,
        hovertemplate="%{y}: %{x:.1%}<extra></extra>",
    )


def _health(figure: LiveFigure, updates: pl.DataFrame) -> None:
    for (name, column), look in zip(
        (("KL", "kl"), ("clipped", "clip"), ("gap", "gap")),
        (style.OTHERS[0], style.OTHERS[1], style.OTHERS[2]),
        strict=True,
    ):
        known = updates.drop_nulls(column)  # of a gap that stale rollouts hide, the steps between are drawn through
        figure.put(
            name, known["step"], known[column], row=3, col=2, mode="lines", line=style.line(look, 1.8),
            legend=_legend(2, 1),
        )  # fmt: skip
    flat, entropy = style.OTHERS[3], style.OTHERS[4]
    figure.put(
        "without variance", updates["step"], updates["flat"], row=3, col=3, mode="lines", line=style.line(flat, 1.8),
        legend=_legend(2, 2),
    )  # fmt: skip
    figure.put(
        "entropy (right)", updates["step"], updates["entropy"], row=3, col=3, secondary=True, mode="lines",
        line=style.line(entropy, 1.8), legend=_legend(2, 2),
    )  # fmt: skip
