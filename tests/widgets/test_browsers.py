"""Filters and pages of the tables, and what picking a row shows."""

from __future__ import annotations

from coevolve_lab import CoEvolve, signal_browser, task_set_view
from coevolve_lab.widgets.browsers import Browser


def test_signals_are_filtered_and_paged(finished: CoEvolve) -> None:
    view = signal_browser(finished, page_size=5)
    assert isinstance(view, Browser), view.error
    total = finished.signals().height
    assert f"1-5 of {total}" in view.rows.where.value
    view.rows.later.click()
    assert f"6-10 of {total}" in view.rows.where.value
    view.rows.filters["kind"].value = "boundary"
    n = finished.sql("select count(*) as n from signals where kind = 'boundary'")["n"][0]
    assert f"of {n}" in view.rows.where.value
    assert view.rows.where.value.startswith("1-")
    assert "rare" not in view.rows.table.value
    view.rows.filters["round"].value = "1"
    page, count = view.rows.page()
    assert set(page["round"]) == {1}
    assert count < n
    view.rows.filters["kind"].value = "any"
    tool = view.rows.filters["tool"].options[1]
    view.rows.filters["round"].value = "any"
    view.rows.filters["tool"].value = tool
    counts = finished.sql(
        f"select kind, count(*) as n from signals where trajectory_id in (select id from trajectories "
        f"where list_contains(tools, '{tool}')) group by kind"
    )
    for kind, n in counts.rows():  # not only rare ones, whose pattern names tools
        view.rows.filters["kind"].value = kind
        assert view.rows.page()[1] == n
    assert len(counts) > 1
    assert not view.rows.error


def test_picking_a_signal_shows_its_trajectory(finished: CoEvolve) -> None:
    view = signal_browser(finished)
    view.rows.pick.value = view.rows.pick.options[1]
    trajectory = finished.sql(f"select trajectory_id as t from signals where id = '{view.rows.pick.value}'")["t"][0]
    assert trajectory in view.detail.value


def test_tasks_by_origin_tool_and_fate(finished: CoEvolve) -> None:
    view = task_set_view(finished, page_size=100)
    assert isinstance(view, Browser), view.error
    for label, column, value in (("origin", "origin", "feedback"), ("status", "status", "never visited")):
        view.rows.filters[label].value = value
        page, count = view.rows.page()
        assert count == page.height > 0
        assert set(page[column]) == {value}
        view.rows.filters[label].value = "any"
    assert "show" in view.rows.filters["tool"].options
    view.rows.filters["tool"].value = "show"
    page, count = view.rows.page()
    assert 0 < count <= finished.tasks().height
    assert all(any("show(" in call for turn in turns for call in turn) for turns in page["solution"].to_list())
    view.rows.pick.value = page["id"][0]
    assert "Since then" in view.detail.value


def test_no_rows_is_said(finished: CoEvolve) -> None:
    view = task_set_view(finished)
    view.rows.filters["origin"].value = "seed"
    view.rows.filters["round"].value = "3"
    assert "nothing that passes these filters" in view.rows.table.value
    assert "0-0 of 0" in view.rows.where.value or "of 0" in view.rows.where.value
    assert "nothing that passes" in view._repr_mimebundle_()["text/html"]
