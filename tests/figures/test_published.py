"""Published values are drawn so that they cannot be taken for one's own."""

from __future__ import annotations

from collections.abc import Callable

import plotly.graph_objects as go
import polars as pl
import pytest

from coevolve_lab import figures, paper
from coevolve_lab.figures import style

Tables = dict[str, pl.DataFrame]

OVERLAYS: dict[str, tuple[Callable[[Tables], go.Figure], Callable[..., go.Figure]]] = {
    "3a": (lambda t: figures.score_per_step(t["evaluations"], t["updates"]), figures.overlay_scores),
    "3b": (lambda t: figures.signals_per_round(t["signals"]), figures.overlay_signals),
    "3d": (lambda t: figures.pass_rate(t["verdicts"]), figures.overlay_pass_rate),
}
every_overlay = pytest.mark.parametrize(("make", "overlay"), OVERLAYS.values(), ids=OVERLAYS.keys())


def published(figure: go.Figure) -> list[go.Scatter]:
    return [trace for trace in figure.data if trace.name and trace.name.startswith(paper.LABEL)]


@every_overlay
def test_own_traces_stay_as_they_are(
    make: Callable[[Tables], go.Figure], overlay: Callable[..., go.Figure], tables: Tables
) -> None:
    before, after = make(tables), overlay(make(tables))
    assert published(before) == []
    assert list(after.data[: len(before.data)]) == list(before.data)
    assert published(after) == list(after.data[len(before.data) :])


@every_overlay
def test_published_marks_are_hollow_and_have_the_colour_of_no_series(
    make: Callable[[Tables], go.Figure], overlay: Callable[..., go.Figure], tables: Tables
) -> None:
    series = {look.color for look in (*style.NAMED.values(), *style.OTHERS)}
    for dark in (False, True):
        added = published(overlay(make(tables), dark=dark))
        assert added
        assert len({trace.marker.symbol for trace in added}) == len(added)
        for trace in added:
            assert trace.marker.symbol.endswith("-open")
            assert trace.line.dash == "dot"
            assert trace.marker.color == style.ink(dark)
            assert trace.marker.color not in series


@every_overlay
def test_published_values_alone_make_no_figure(
    make: Callable[[Tables], go.Figure], overlay: Callable[..., go.Figure], empty_tables: Tables
) -> None:
    assert len(overlay(make(empty_tables)).data) == 0


def test_scores_are_those_of_figure_3a(tables: Tables) -> None:
    made = figures.overlay_scores(figures.score_per_step(tables["evaluations"]), ["grpo"])
    (trace,) = published(made)
    assert trace.name == f"{paper.LABEL}: grpo, appworld"
    assert list(zip(trace.x, trace.y, strict=True))[-1] == (120, 0.23)
    with pytest.raises(ValueError, match="no 'rest'; it has coevolve, grpo"):
        figures.overlay_scores(made, ["rest"])


def test_steps_become_rounds_of_ten(tables: Tables) -> None:
    (signals,) = published(figures.overlay_signals(figures.signals_per_round(tables["signals"])))
    assert list(signals.x) == [1, 5, 9, 12]
    assert list(signals.y) == [269, 256, 223, 204]
    (passed,) = published(figures.overlay_pass_rate(figures.pass_rate(tables["verdicts"])))
    assert list(passed.y) == [0.71, 0.85, 0.74, 0.80]
    assert (passed.xaxis, passed.yaxis) == ("x", "y")  # the left panel
