"""Own scores beside the published ones: never mixed, seeds never merged by accident."""

from __future__ import annotations

import math

import polars as pl
import pytest

from coevolve_lab import paper
from coevolve_lab.errors import ConfigError

RESULT_TABLES = [n for n in range(1, 16) if n != 9]


def own(*rows: tuple[str, str, int, float]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=["method", "environment", "seed", "score"], orient="row")


SCORES = own(("fixed", "tiny", 0, 0.3), ("fixed", "tiny", 1, 0.4), ("fixed", "tiny", 2, 0.35), ("mine", "tiny", 0, 0.5))


@pytest.mark.parametrize("number", RESULT_TABLES)
def test_every_table_of_results_has_a_long_form(number: int) -> None:
    long = paper.published_scores(number)
    assert long.columns == ["method", "environment", "published", "source"]
    assert long.select("method", "environment").is_duplicated().sum() == 0
    numeric = paper.table(number).select(pl.selectors.numeric())
    assert set(long["published"]) <= {value for column in numeric for value in column.to_list()}


def test_settings_have_no_long_form() -> None:
    with pytest.raises(ConfigError, match="table 9 has no results"):
        paper.published_scores(9)


def test_mean_and_standard_error_over_seeds_stand_beside_the_published() -> None:
    compared = paper.side_by_side(SCORES, 10, rows={"fixed": "grpo"}, columns={"tiny": "bfcl"})
    row = compared.row(by_predicate=(pl.col("method") == "grpo") & (pl.col("environment") == "bfcl"), named=True)
    assert row["own_mean"] == pytest.approx(35.0)
    assert row["own_stderr"] == pytest.approx(5 / math.sqrt(3))  # the standard deviation of 30, 35, 40 is 5
    assert (row["own_seeds"], row["published"]) == (3, 58.0)
    assert row["source"].endswith("table 10")


def test_rows_that_are_numbers_find_their_place() -> None:
    diversity = pl.DataFrame(
        {"method": [10, 10], "environment": ["sr_percent"] * 2, "seed": [0, 1], "score": [0.3, 0.5]}
    )
    first = paper.side_by_side(diversity, 15).row(0, named=True)
    assert (first["method"], first["own_mean"], first["published"]) == ("10", pytest.approx(40.0), 22.57)


def test_one_side_may_be_missing_and_is_never_filled() -> None:
    compared = paper.side_by_side(SCORES, 10, columns={"tiny": "bfcl"})
    mine = compared.row(by_predicate=pl.col("method") == "mine", named=True)
    assert (mine["own_mean"], mine["own_stderr"], mine["own_seeds"]) == (50.0, None, 1)
    assert (mine["published"], mine["source"]) == (None, None)
    theirs = compared.filter(pl.col("published").is_not_null())
    assert theirs["own_mean"].null_count() == theirs.height
    assert theirs.select("method", "environment", "published", "source").equals(paper.published_scores(10))


def test_other_units_than_shares_are_said_to_be_so() -> None:
    costs = own(("bfcl", "single_feedback_cost_s", 0, 12.5), ("bfcl", "single_feedback_cost_s", 1, 13.5))
    with pytest.raises(ValueError, match="pass scale=1"):
        paper.side_by_side(costs, 7)
    compared = paper.side_by_side(costs, 7, scale=1)
    row = compared.row(by_predicate=pl.col("own_mean").is_not_null(), named=True)
    assert (row["own_mean"], row["published"]) == (13.0, 480.0)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None])
def test_a_score_that_is_no_number_is_refused(value: float | None) -> None:
    with pytest.raises(ValueError, match="not a finite number"):
        paper.side_by_side(SCORES.with_columns(score=pl.lit(value, pl.Float64)), 5)


def test_methods_that_a_renaming_would_merge_are_refused() -> None:
    with pytest.raises(ValueError, match="two own results for one seed"):
        paper.side_by_side(SCORES, 10, rows={"fixed": "grpo", "mine": "grpo"})


def test_missing_columns_are_named() -> None:
    with pytest.raises(ValueError, match="columns environment, seed"):
        paper.side_by_side(SCORES.drop("seed", "environment"), 5)


def test_markdown_labels_what_is_published() -> None:
    compared = paper.side_by_side(SCORES, 11, rows={"fixed": "with_validation"}, columns={"tiny": "bfcl"})
    lines = paper.markdown(compared, digits=1).splitlines()
    assert lines[0] == "|  | bfcl: own | bfcl: published | appworld: own | appworld: published |"
    assert "| with_validation | 35.0 ± 2.9 (3) | 63.0 |  | 35.7 |" in lines
    assert "| mine | 50.0 (1) |  |  |  |" in lines
    assert lines[-1].endswith("published: Yang et al. 2026, arXiv:2604.15840v1, table 11.")


def test_markdown_survives_a_name_with_a_bar() -> None:
    compared = paper.side_by_side(own(("a|b", "bfcl", 0, 0.5)), 11)
    widths = {len(line.replace("\\|", "").split("|")) for line in paper.markdown(compared).splitlines()[:5]}
    assert len(widths) == 1
