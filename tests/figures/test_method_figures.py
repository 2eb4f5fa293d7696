"""Figures that compare methods: scores, learning curves, paired differences."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from coevolve_lab import figures, paper
from coevolve_lab.figures import style

SCORES = pl.DataFrame(
    [("grpo", "a", 0, 0.3), ("grpo", "a", 1, 0.5), ("grpo", "b", 0, 0.2), ("mine", "a", 0, 0.6), ("mine", "a", 1, 0.6)],
    schema=["method", "environment", "seed", "score"],
    orient="row",
)
CURVES = pl.DataFrame(
    [
        (method, step, seed, 0.2 + 0.01 * step + 0.1 * seed)
        for method in ("grpo", "mine")
        for step in (0, 5, 10)
        for seed in ((0, 1) if method == "grpo" else (0,))
    ],
    schema=["method", "step", "seed", "score"],
    orient="row",
)
GAINS = pl.DataFrame(
    [("mine", "grpo", "a", 0.2, 0.1, -0.05, 0.4), ("mine", "grpo", "b", -0.1, None, -0.2, 0.02)],
    schema=["other", "first", "column", "gain", "stderr", "low", "high"],
    orient="row",
)
MADE: dict[str, Any] = {
    "method_scores": (figures.method_scores, SCORES),
    "learning_curves": (figures.learning_curves, CURVES),
    "paired_gains": (figures.paired_gains, GAINS),
}


def legend(figure: Any) -> list[str]:
    return [trace.name for trace in figure.data if trace.showlegend is not False]


@pytest.mark.parametrize("name", MADE)
def test_frames_without_rows_say_what_is_missing(name: str) -> None:
    draw, frame = MADE[name]
    empty = draw(frame.clear())
    assert len(empty.data) == 0
    assert empty.layout.annotations[0].text.startswith("no data yet: ")


@pytest.mark.parametrize("name", MADE)
def test_every_series_is_told_apart_without_colour(name: str) -> None:
    draw, frame = MADE[name]
    marks = [trace.marker.symbol for trace in draw(frame).data if trace.mode and "markers" in trace.mode and trace.name]
    assert len(set(marks)) == len(marks) == 2


@pytest.mark.parametrize("name", MADE)
def test_dark_figures_are_dark(name: str) -> None:
    draw, frame = MADE[name]
    assert draw(frame, dark=True).layout.template.layout.paper_bgcolor == style.paper(True)


def test_a_mark_is_the_mean_with_its_standard_error_and_seeds_are_dots() -> None:
    made = figures.method_scores(SCORES)
    (mean,) = [trace for trace in made.data if trace.name == "a (2 seeds)"]
    assert list(mean.x) == pytest.approx([0.4, 0.6])
    assert list(mean.error_x.array) == pytest.approx([0.1, 0.0])
    (dots,) = [trace for trace in made.data if trace.name is None]
    assert sorted(dots.x) == pytest.approx([0.3, 0.5, 0.6, 0.6])
    assert list(made.layout.yaxis.ticktext) == ["grpo", "mine"]
    assert "b (1 seed)" in legend(made)


def test_published_scores_are_hollow_and_only_beside_own_ones() -> None:
    published = pl.DataFrame(
        {"method": ["grpo", "mine", "rest"], "environment": ["a", "b", "a"], "published": [58.0, 63.0, 52.0]}
    )
    made = figures.method_scores(SCORES, published)
    (hollow,) = [trace for trace in made.data if (trace.name or "").startswith(paper.LABEL)]
    assert (list(hollow.x), hollow.mode, hollow.marker.symbol) == ([0.58], "markers", "circle-open")
    assert hollow.marker.color == style.ink(False)


def test_a_curve_is_the_mean_and_a_band_is_there_where_there_are_seeds() -> None:
    made = figures.learning_curves(CURVES)
    curve = {trace.name: trace for trace in made.data if trace.name}
    assert list(curve) == ["grpo (2 seeds)", "mine (1 seed)"]
    assert list(curve["grpo (2 seeds)"].y) == pytest.approx([0.25, 0.3, 0.35])
    upper, lower = (trace for trace in made.data if trace.name is None)
    assert [u - v for u, v in zip(upper.y, lower.y, strict=True)] == pytest.approx([0.1] * 3)


def test_the_published_curve_goes_over_it() -> None:
    made = figures.overlay_scores(figures.learning_curves(CURVES))
    assert sum((trace.name or "").startswith(paper.LABEL) for trace in made.data) == 2


def test_differences_are_in_points_with_both_bars() -> None:
    made = figures.paired_gains(GAINS)
    interval, error, mark = (trace for trace in made.data if trace.legendgroup == "a")
    assert list(interval.x)[:2] == pytest.approx([-5, 40])
    assert list(error.x)[:2] == pytest.approx([10, 30])
    assert list(mark.x) == pytest.approx([20])
    assert list(made.layout.yaxis.ticktext) == ["mine - grpo"]
    (_, bare, _) = (trace for trace in made.data if trace.legendgroup == "b")
    assert list(bare.x) == [None, None, None]  # one seed has no standard error


def test_more_series_than_colours_still_differ() -> None:
    looks = [style.series_look(i) for i in range(3 * len(style.OTHERS))]
    assert len({(look.color, look.marker) for look in looks}) == len(looks)
    assert looks[: len(style.OTHERS)] == list(style.OTHERS)
