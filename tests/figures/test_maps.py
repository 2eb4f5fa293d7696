"""The map of tasks fills up step by step, on one scale."""

from __future__ import annotations

import polars as pl

from coevolve_lab import figures

POINTS = pl.DataFrame(
    {
        "x": [float(i) for i in range(12)],
        "y": [float(-i) for i in range(12)],
        "origin": ["seed", "benchmark", *["feedback"] * 9, "random"],
        "step": [0, 0, *range(1, 11)],
    }
)


def test_each_panel_holds_what_the_set_held_by_then() -> None:
    made = figures.task_map(POINTS, steps=[0, 3])
    drawn = [(trace.name, list(trace.x)) for trace in made.data]
    assert drawn == [
        ("original", [0, 1]),
        ("synthesized", []),
        ("original", [0, 1]),
        ("synthesized", [2, 3, 4]),
    ]
    assert [a.text for a in made.layout.annotations] == ["step 0: 2 tasks", "step 3: 5 tasks"]


def test_panels_share_their_scale_and_the_groups_differ_without_colour() -> None:
    made = figures.task_map(POINTS)
    assert made.layout.xaxis.range == made.layout.xaxis4.range
    assert made.layout.xaxis.range[0] < 0 < 11 < made.layout.xaxis.range[1]
    assert len({trace.marker.symbol for trace in made.data}) == 2
    assert [trace.showlegend for trace in made.data].count(True) == 2


def test_four_steps_from_the_first_to_the_last_are_chosen() -> None:
    titles = [a.text.split(":")[0] for a in figures.task_map(POINTS).layout.annotations]
    assert titles == ["step 0", "step 3", "step 7", "step 10"]


def test_what_counts_as_original_can_be_said() -> None:
    made = figures.task_map(POINTS, steps=[10], original=["benchmark"])
    assert [list(trace.x)[:2] for trace in made.data] == [[1], [0, 2]]


def test_without_tasks_it_says_so() -> None:
    figure = figures.task_map(POINTS.clear())
    assert len(figure.data) == 0
    assert figure.layout.annotations[0].text.startswith("no data yet: ")
