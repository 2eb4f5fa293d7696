"""The histogram of similarities to evaluation tasks."""

from __future__ import annotations

import polars as pl
import pytest

from coevolve_lab import figures, paper

VALUES = pl.DataFrame({"similarity": [0.01, 0.52, 0.54, 1.0, -0.2, None]})


def test_shares_are_of_the_tasks_with_a_similarity() -> None:
    (bars,) = figures.similarity_histogram(VALUES).data
    assert sum(bars.y) == pytest.approx(1)
    shown = {round(float(x), 3): y for x, y in zip(bars.x, bars.y, strict=True) if y}
    assert shown == {0.025: pytest.approx(0.4), 0.525: pytest.approx(0.4), 0.975: pytest.approx(0.2)}
    assert bars.name.startswith("own run (n = 5, mean 0.37)")


def test_tasks_without_a_similarity_are_counted() -> None:
    assert "(1 without one left out)" in figures.similarity_histogram(VALUES).layout.title.text
    assert "left out" not in figures.similarity_histogram(VALUES.drop_nulls()).layout.title.text


def test_of_the_published_histogram_only_the_range_is_drawn() -> None:
    bars, *ranges = figures.similarity_histogram(VALUES, paper.figure("5")).data
    assert [trace.name for trace in ranges] == [f"{paper.LABEL}: range on {name}" for name in ("appworld", "bfcl")]
    assert [list(trace.x) for trace in ranges] == [[0.2, 0.9], [0.2, 1.0]]
    assert min(min(trace.y) for trace in ranges) > max(bars.y)
    assert all(trace.marker.symbol.endswith("-open") for trace in ranges)


def test_a_verdicts_table_does(tables: dict[str, pl.DataFrame]) -> None:
    measured = tables["verdicts"].with_columns(similarity=pl.lit(0.5))
    assert len(figures.similarity_histogram(measured).data) == 1


def test_without_similarities_it_says_so(tables: dict[str, pl.DataFrame]) -> None:
    figure = figures.similarity_histogram(tables["verdicts"], paper.figure("5"))
    assert len(figure.data) == 0
    assert figure.layout.annotations[0].text.startswith("no data yet: ")
