"""The published numbers: all of them are there, unchanged, and each says where it comes from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import polars as pl
import pytest

from coevolve_lab import paper
from coevolve_lab.errors import ConfigError

RESULTS: dict[str, Any] = json.loads(files("coevolve_lab.paper").joinpath("results.json").read_text())
NAMES = paper.sources()["name"].to_list()
FRAMES = {name: paper.table(int(n)) if k == "table" else paper.figure(n) for name in NAMES for k, n in [name.split()]}


def numbers(value: Any) -> Iterator[float]:
    """Every number in a JSON value."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from numbers(item)
    elif not isinstance(value, str):
        yield float(value)


def held(frame: pl.DataFrame) -> list[float]:
    return [value for column in frame.select(pl.selectors.numeric()) for value in column.drop_nulls().to_list()]


@pytest.mark.parametrize("name", NAMES)
def test_every_row_names_its_source(name: str) -> None:
    assert set(FRAMES[name]["source"]) == {f"published: Yang et al. 2026, arXiv:2604.15840v1, {name}"}
    assert FRAMES[name].columns[-1] == "source"


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"table 9", "figure 3a"}))
def test_no_number_is_lost_or_changed(name: str) -> None:
    key = next(k for k in RESULTS if k.startswith(name.replace(" ", "") + "_"))
    shown = {n for part in (held(FRAMES[name]), numbers(dict(paper.details(name)))) for n in part}
    assert shown == set(numbers(RESULTS[key]))


def test_curves_keep_their_order() -> None:
    frame = paper.figure("3a")
    for method in ("coevolve", "grpo"):
        own = frame.filter(pl.col("method") == method)
        assert own["score"].to_list() == RESULTS["figure3a_performance"][method]
        assert own["step"].to_list() == RESULTS["figure3a_performance"]["steps"]


def test_frames_are_typed() -> None:
    assert paper.table(4).schema == pl.Schema(
        {"dimension": pl.String, "value": pl.Int64, "appworld": pl.Float64, "bfcl": pl.Float64, "source": pl.String}
    )
    assert paper.figure("4").filter(kind="rare", benchmark="bfcl")["percent"].to_list() == [24.6]
    assert paper.figure("5").rows()[0][:3] == ("appworld", 0.2, 0.9)
    assert "0-8 turns" in paper.figure("7")["note"][0]


def test_settings_are_json_text() -> None:
    settings = dict(paper.table(9).select("setting", "value").iter_rows())
    assert json.loads(settings["learning_rate"]) == 1e-6
    assert json.loads(settings["max_interaction_steps.bfcl"]) == 30


def test_mean_similarities_stand_beside_their_scores() -> None:
    rows = paper.table(13).select("setting", "bfcl", "mean_similarity_percent").rows()
    assert rows == [("high", 56.5, 64.73), ("medium", 59.0, 53.28), ("low", 56.5, 38.43), ("mixed", 63.0, None)]


def test_shares_are_whole() -> None:
    for row in paper.table(8).select(pl.selectors.numeric()).rows():
        assert sum(row) == pytest.approx(100)
    totals = paper.figure("4").group_by("benchmark").agg(pl.col("percent").sum())["percent"].to_list()
    assert totals == [pytest.approx(100)] * 2


@pytest.mark.parametrize("ask", [lambda: paper.table(16), lambda: paper.figure("3c"), lambda: paper.details("plate 1")])
def test_what_was_not_published_is_named(ask: Any) -> None:
    with pytest.raises(ConfigError, match=r"nothing is published of '.+'; there are table 1, .*figure 7"):
        ask()


def test_what_is_handed_out_can_be_changed_without_harm() -> None:
    listed = paper.inconsistencies()
    listed.clear()
    paper.details("table 15")["mean"]["sr_percent"] = 0.0
    assert len(paper.inconsistencies()) == len(RESULTS["inconsistencies_in_the_paper"]) == 5
    assert paper.details("table 15")["mean"]["sr_percent"] == 21.44
