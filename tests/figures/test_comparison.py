"""Two policies crossed on one split."""

from __future__ import annotations

import pytest

from coevolve_lab import figures
from coevolve_lab.figures.comparison import Counts

COUNTS: dict[str, Counts] = {"forked": (12, 3, 8, 2), "uniform": (10, 5, 0, 10)}


def test_numbers_and_percent_are_written_where_they_belong() -> None:
    field = figures.cross_comparison("first", COUNTS).data[0]
    assert [list(row) for row in field.z[:2]] == [[12 / 25, 3 / 25], [8 / 25, 2 / 25]]
    assert [list(row) for row in field.text[2:]] == [
        ["both<br><b>10</b> (40%)", "only first<br><b>5</b> (20%)"],
        ["only uniform<br><b>0</b> (0%)", "neither<br><b>10</b> (40%)"],
    ]


def test_each_field_adds_up_to_all_tasks() -> None:
    field = figures.cross_comparison("first", COUNTS).data[0]
    for upper, lower in (field.z[:2], field.z[2:]):
        assert sum(upper) + sum(lower) == pytest.approx(1)


def test_ink_stands_out_from_every_shade_of_the_scale() -> None:
    field = figures.cross_comparison("first", COUNTS, dark=True).data[0]
    for _, shade in field.colorscale:
        assert _luminance(shade) / _luminance(field.textfont.color) > 7


def test_a_long_label_is_shortened_in_its_cell_but_not_in_the_title() -> None:
    long = "feedback-with-a-very-long-name-s0-fork1"
    made = figures.cross_comparison("first", {long: (1, 1, 1, 1)})
    assert long in made.layout.title.text
    label = made.data[0].text[1][0].split("<br>")[0]
    assert label == "only feedback…-s0-fork1"


def test_without_evaluations_it_says_so() -> None:
    figure = figures.cross_comparison("first", {})
    assert len(figure.data) == 0
    assert figure.layout.annotations[0].text.startswith("no data yet: ")


def _luminance(color: str) -> float:
    """Relative luminance plus the 0.05 of WCAG's contrast ratio."""
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] + 0.05
