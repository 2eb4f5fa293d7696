from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import polars as pl
import pytest

from coevolve_lab import figures
from coevolve_lab.figures import style

Tables = dict[str, pl.DataFrame]


def _rates(tables: Tables, dark: bool = False) -> go.Figure:
    outcomes = [json.loads(text) for text in tables["evaluations"].sort("step")["outcomes"]] or [{}]
    return figures.solve_rates(tables["tasks"], outcomes[0], outcomes[-1], dark=dark)


MAKERS: dict[str, Callable[..., go.Figure]] = {
    "score_per_step": lambda t, **o: figures.score_per_step(t["evaluations"], t["updates"], **o),
    "signals_per_round": lambda t, **o: figures.signals_per_round(t["signals"], **o),
    "turn_histogram": lambda t, **o: figures.turn_histogram(t["tasks"], **o),
    "task_set_growth": lambda t, **o: figures.task_set_growth(t["tasks"], **o),
    "pass_rate": lambda t, **o: figures.pass_rate(t["verdicts"], **o),
    "cost_share": lambda t, **o: figures.cost_share(t["stage_costs"], **o),
    "policy_health": lambda t, **o: figures.policy_health(t["updates"], **o),
    "solve_rates": _rates,
}
every_figure = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())


def bars(figure: go.Figure, name: str, panel: str = "x") -> list[float]:
    traces = [t for t in figure.data if t.type == "bar" and t.name.startswith(name) and (t.xaxis or "x") == panel]
    assert len(traces) == 1
    return list(traces[0].y)


@every_figure
def test_every_figure_says_so_when_there_is_nothing_to_show(
    make: Callable[..., go.Figure], empty_tables: Tables
) -> None:
    figure = make(empty_tables)
    assert len(figure.data) == 0
    assert figure.layout.annotations[0].text.startswith("no data yet: ")


@every_figure
def test_series_of_a_figure_differ_without_colour(make: Callable[..., go.Figure], tables: Tables) -> None:
    figure = make(tables)
    shown = [t for t in figure.data if t.showlegend is not False]
    drawn = [
        t.marker.pattern.shape if t.type == "bar" else (t.line.dash, t.line.width, t.marker.symbol, t.fillpattern.shape)
        for t in shown
    ]
    by_kind = {kind: [d for t, d in zip(shown, drawn, strict=True) if t.type == kind] for kind in ("bar", "scatter")}
    # Nine stages share six patterns; neighbours in the stack differ.
    assert all(one != other for looks in by_kind.values() for one, other in pairwise(looks))


@every_figure
def test_dark_and_light_differ_only_in_dress(make: Callable[..., go.Figure], tables: Tables) -> None:
    light, dark = make(tables), make(tables, dark=True)
    assert light.layout.template.layout.paper_bgcolor == "#FFFFFF"
    assert dark.layout.template.layout.paper_bgcolor == "#1E1E1E"
    for one, other in zip(light.data, dark.data, strict=True):
        assert np.array_equal(one.x, other.x)
        assert np.array_equal(one.y, other.y)


def test_scores_with_baselines_and_errors(tables: Tables) -> None:
    evaluations = tables["evaluations"].sort("step")
    figure = figures.score_per_step(evaluations, baseline={"fixed set": evaluations.with_columns(score=pl.lit(0.25))})
    lines = {t.name: t for t in figure.data if t.mode == "lines+markers"}
    assert list(lines) == ["this run", "fixed set"]
    assert list(lines["this run"].y) == evaluations["score"].to_list()
    assert set(lines["fixed set"].y) == {0.25}
    upper, lower = (t for t in figure.data if t.legendgroup == "this run" and t.mode == "lines")
    assert np.allclose(np.subtract(upper.y, lower.y), 2 * evaluations["stderr"].to_numpy())


def test_only_one_split_is_shown() -> None:
    rows = {"step": [0, 5, 5], "score": [0.1, 0.2, 0.9], "stderr": [0.0] * 3, "split": ["test", "test", "train"]}
    figure = figures.score_per_step(pl.DataFrame(rows))
    assert list(figure.data[-1].y) == [0.1, 0.2]
    assert list(figures.score_per_step(pl.DataFrame(rows), split="train").data[-1].y) == [0.9]


def test_signals_are_counted_and_shared() -> None:
    signals = pl.DataFrame({"round": [1, 1, 1, 1, 3], "kind": ["rare", "boundary", "boundary", "mine", "rare"]})
    figure = figures.signals_per_round(signals)
    assert bars(figure, "boundary") == [2, 0]
    assert bars(figure, "rare", "x2") == [0.25, 1.0]
    assert bars(figure, "mine", "x2") == [0.25, 0.0]
    assert [t.name for t in figure.data if t.showlegend is not False] == ["boundary", "rare", "mine"]


def test_calls_and_turns_are_counted() -> None:
    tasks = pl.DataFrame(
        {
            "origin": ["seed", "benchmark", "feedback"],
            "solution": [[["a()"]], [["a()", "b()"], ["c()"]], [["a()", "b()"], [], ["c()"]]],
        }
    )
    assert bars(figures.turn_histogram(tasks), "original") == [0, 0.5, 0, 0.5, 0]
    assert bars(figures.turn_histogram(tasks), "synthesized") == [0, 0, 0, 1, 0]
    assert bars(figures.turn_histogram(tasks, measure="turns"), "synthesized") == [0, 0, 0, 1, 0]
    assert bars(figures.turn_histogram(tasks, original=["benchmark"]), "synthesized") == [0, 0.5, 0, 0.5, 0]


def test_densities_have_the_area_of_their_histogram(tables: Tables) -> None:
    curves = [trace for trace in figures.turn_histogram(tables["tasks"]).data if trace.type == "scatter"]
    assert curves
    for curve in curves:
        assert np.trapezoid(curve.y, curve.x) == pytest.approx(1, abs=0.05)


def test_the_task_set_only_grows() -> None:
    tasks = pl.DataFrame({"round": [0, 0, 2, 2, 3], "origin": ["seed", "seed", "feedback", "random", "feedback"]})
    figure = figures.task_set_growth(tasks)
    assert bars(figure, "seed") == [2, 2, 2, 2]
    assert bars(figure, "feedback") == [0, 0, 1, 2]


def test_pass_rate_and_reasons() -> None:
    verdicts = pl.DataFrame(
        {
            "draft_id": ["a", "b", "c", "d", "e"],
            "round": [1, 1, 1, 1, 2],
            "outcome": ["accepted", "accepted", "discarded", "retained", "discarded"],
            "reason": ["ok", "ok", "duplicate", "partial", "duplicate"],
        }
    )
    figure = figures.pass_rate(verdicts)
    assert bars(figure, "accepted") == [0.5, 0.0]
    assert bars(figure, "retained") == [0.25, 0.0]
    assert "2 of 5 accepted" in figure.layout.title.text
    reasons = next(t for t in figure.data if t.orientation == "h" and t.name == "discarded")
    assert dict(zip(reasons.y, reasons.x, strict=True)) == {"duplicate": 2, "partial": 0}
    assert "held" not in {trace.name for trace in figure.data}


def test_held_drafts_passed_and_each_draft_counts_once() -> None:
    verdicts = pl.DataFrame(
        {
            "draft_id": ["a", "b", "c", "d", "d"],
            "round": [1, 1, 1, 1, 1],
            "outcome": ["accepted", "held", "discarded", "discarded", "held"],
            "reason": ["ok", "risk", "duplicate", "surplus", "risk"],
        }
    )
    figure = figures.pass_rate(verdicts)
    assert {name: bars(figure, name) for name in ("accepted", "held", "discarded")} == {
        "accepted": [0.25],
        "held": [0.5],
        "discarded": [0.25],
    }
    assert "1 of 4 accepted, 2 held" in figure.layout.title.text
    assert "not needed" not in figure.layout.title.text
    reasons = next(t for t in figure.data if t.orientation == "h" and t.name == "held")
    assert dict(zip(reasons.y, reasons.x, strict=True)) == {"risk": 2, "duplicate": 0}
    two_runs = pl.concat([verdicts.with_columns(seed=pl.lit(seed)) for seed in (0, 1)])
    assert "2 of 8 accepted, 4 held" in figures.pass_rate(two_runs).layout.title.text


def test_cost_share_is_that_of_stages_2_and_3() -> None:
    costs = pl.DataFrame(
        {"round": [1, 1, 1, 2], "stage": ["rollout", "explore", "validate", "train"], "seconds": [8.0, 1.5, 0.5, 10.0]}
    )
    figure = figures.cost_share(costs)
    assert "10.0% of 20 s" in figure.layout.title.text
    assert list(next(t for t in figure.data if t.type == "scatter").y) == [0.2, 0.0]
    assert bars(figure, "explore") == [1.5, 0.0]


def test_a_users_own_names_get_looks_of_their_own() -> None:
    looks = style.looks(["forgetting", "boundary", "rare", "mine", "yours"])
    assert len({look.color for look in looks.values()}) == 5
    assert len({look.pattern for look in looks.values()}) == 5
    assert style.looks(["rare"])["rare"] == looks["rare"]


def test_groups_without_variance_are_shares(tables: Tables) -> None:
    figure = figures.policy_health(tables["updates"])
    stacked = {t.name: t for t in figure.data if t.stackgroup}
    updates = tables["updates"].sort("step")
    assert list(stacked["all failed"].y) == (updates["groups_all_failed"] / updates["groups"]).to_list()
    assert set(stacked) == {"all failed", "all solved"}


def test_tool_rates_come_from_the_solutions_of_tasks_scored_twice() -> None:
    tasks = pl.DataFrame(
        {"id": ["a", "b", "c"], "solution": [[["cd(x=1)", "cd(x=2)", "ls()"]], [["ls()"]], [["mv()"]]]}
    )
    rates = figures.tool_rates(tasks, {"a": 0.0, "b": 1.0, "c": 0.0}, {"a": 1.0, "b": 1.0})
    assert rates.rows() == [("cd", 1, 0.0, 1.0), ("ls", 2, 0.5, 1.0)]


def test_html_works_offline(tables: Tables, tmp_path: Path) -> None:
    path = figures.save(figures.task_set_growth(tables["tasks"]), tmp_path / "new" / "growth.html")
    assert {p.name for p in path.parent.iterdir()} == {"growth.html", "plotly.min.js"}
    assert "https://cdn" not in path.read_text()
    with pytest.raises(ValueError, match=r"'\.gif'; endings: \.html, \.png"):
        figures.save(go.Figure(), tmp_path / "x.gif")


@pytest.mark.browser
def test_images_have_the_figures_size(tables: Tables, tmp_path: Path) -> None:
    made = {"health": figures.policy_health(tables["updates"]), "growth": figures.task_set_growth(tables["tasks"])}
    paths = figures.save_all(made, tmp_path, ["png"], width=700)
    sizes = [np.frombuffer(p.read_bytes()[16:24], dtype=">u4").tolist() for p in paths]
    assert sizes == [[1400, 1040], [1400, 800]]


def test_images_without_a_browser_name_the_remedy(tmp_path: Path) -> None:
    code = (
        "import plotly.graph_objects as go; from coevolve_lab import figures, errors\n"
        "try: figures.save(go.Figure(), 'x.png')\n"
        "except errors.PrerequisiteError as error: print(error)"
    )
    environment = {**os.environ, "BROWSER_PATH": "/nowhere", "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=60)
    assert "apt-get install chromium" in result.stdout, result.stderr


def test_plotly_is_loaded_on_first_use() -> None:
    code = "import sys, coevolve_lab.figures as f; before = 'plotly' in sys.modules; f.save; "
    code += "assert (before, 'plotly' in sys.modules) == (False, True)"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, timeout=60)
    assert all(callable(getattr(figures, name)) for name in figures.__all__)
