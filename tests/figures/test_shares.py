"""Shares of signals: means over seeds, with errors, beside the published ones."""

from __future__ import annotations

import math

import polars as pl
import pytest

from coevolve_lab import figures, paper
from coevolve_lab.figures.shares import shares_by_kind

TWO_SEEDS = pl.DataFrame(
    {
        "kind": ["rare", "boundary", "boundary", "boundary", "boundary", "boundary"],
        "seed": [0, 0, 0, 0, 1, 1],
        "environment": ["tiny"] * 6,
    }
)


def test_a_seed_without_a_kind_counts_as_none_of_it() -> None:
    shares = {row["kind"]: row for row in shares_by_kind(TWO_SEEDS).iter_rows(named=True)}
    assert shares["rare"]["share"] == pytest.approx((0.25 + 0) / 2)
    assert shares["boundary"]["share"] == pytest.approx((0.75 + 1) / 2)
    # The sample standard deviation of two values is their distance over sqrt(2).
    assert shares["rare"]["stderr"] == pytest.approx(0.25 / math.sqrt(2) / math.sqrt(2))
    assert {row["seeds"] for row in shares.values()} == {2}


def test_shares_of_each_environment_are_whole(tables: dict[str, pl.DataFrame]) -> None:
    marks = pl.concat(
        [tables["signals"].select("kind").with_columns(environment=pl.lit(name)) for name in ("one", "other")]
    )
    totals = shares_by_kind(marks).group_by("environment").agg(pl.col("share").sum())["share"].to_list()
    assert totals == [pytest.approx(1)] * 2


def test_errors_are_drawn_for_several_seeds_only() -> None:
    (several,) = figures.signal_shares(TWO_SEEDS).data
    assert several.name == "tiny (2 seeds)"
    assert list(several.error_y.array) == [pytest.approx(0.125)] * 2
    (one,) = figures.signal_shares(TWO_SEEDS.filter(pl.col("seed") == 0)).data
    assert one.error_y.array is None


def test_published_shares_are_hollow_bars_beside() -> None:
    own, *published = figures.signal_shares(TWO_SEEDS.select("kind"), paper.figure("4")).data
    assert list(own.x) == ["forgetting", "boundary", "rare"]
    assert list(own.y) == pytest.approx([0, 5 / 6, 1 / 6])
    assert [trace.name for trace in published] == [f"{paper.LABEL}: appworld", f"{paper.LABEL}: bfcl"]
    assert list(published[0].y) == pytest.approx([0.298, 0.514, 0.188])
    assert {trace.marker.color for trace in published} == {"rgba(0,0,0,0)"}
    assert len({trace.marker.pattern.shape for trace in published} - {""}) == 2
    assert own.marker.color != "rgba(0,0,0,0)"


def test_without_signals_it_says_so() -> None:
    figure = figures.signal_shares(pl.DataFrame(schema={"kind": pl.String}), paper.figure("4"))
    assert len(figure.data) == 0
    assert figure.layout.annotations[0].text.startswith("no data yet: ")
