"""All signals, and all tasks, as tables to filter and to open."""

from __future__ import annotations

from typing import Any

import ipywidgets as W

from coevolve_lab.widgets import chain, markup, view
from coevolve_lab.widgets.pages import task_page
from coevolve_lab.widgets.paging import PagedTable
from coevolve_lab.widgets.replay import trajectory_html

SIGNALS = """
select id, kind, round, step, score, array_to_string(pattern, ' > ') as pattern, task_id, trajectory_id, detail
from signals
"""
# Joined for the rows of a page only: over all signals these two cost more than everything else.
SIGNAL_DETAILS = """
select p.*, t.status, k.origin from page p left join trajectories t on t.id = p.trajectory_id and t.round = p.round
left join tasks k on k.id = p.task_id
"""
_SIGNAL_ORDER = "round desc, step desc, id"
SIGNAL_FILTERS = {
    "kind": ("kind = {value}", "select distinct kind from signals order by 1"),
    "round": ("round = {value}::bigint", "select distinct round from signals order by 1 desc"),
    "tool": (  # that the trajectory calls: only rare signals name tools in their pattern
        "trajectory_id in (select id from trajectories where list_contains(tools, {value}))",
        "select tool from (select unnest(tools) as tool from trajectories) group by tool order by count(*) desc, tool",
    ),
    "origin": (
        "task_id in (select id from tasks where origin = {value})",
        "select distinct origin from tasks order by 1",
    ),
    "status": (
        "trajectory_id in (select id from trajectories where status = {value})",
        "select distinct status from trajectories order by 1",
    ),
}
_TASKS = """
select t.id, t.round, t.origin, t.turns[1] as query, t.n_calls as calls, len(t.turns) as turns, v.similarity,
       f.visits, f.first_solved as "solved at first", f.last_solved as "solved last", t.solution,
       case when f.visits is null then 'never visited' when f.last_solved >= 1 then 'solved'
            when f.last_solved = 0 then 'failed' else 'partly' end as status
from tasks t left join verdicts v on v.task_id = t.id left join (
    select task_id, count(*) as visits, arg_min(solved, step) as first_solved, arg_max(solved, step) as last_solved
    from (select task_id, step, avg((score >= 1)::int) as solved from trajectories where purpose = 'train' group by all)
    group by task_id
) f on f.task_id = t.id
"""
SIGNAL_COLUMNS = ("id", "kind", "round", "step", "score", "pattern", "status", "origin", "task_id", "detail")
_TASK_COLUMNS = (
    "id", "round", "origin", "query", "calls", "turns", "visits", "solved at first", "solved last", "status",
    "similarity",
)  # fmt: skip
_CALLED = "regexp_extract(call, '([A-Za-z_][A-Za-z0-9_.]*)\\s*\\(', 1)"
_TASK_FILTERS = {
    "origin": ("origin = {value}", "select distinct origin from tasks order by 1"),
    "round": ("round = {value}::bigint", "select distinct round from tasks order by 1 desc"),
    "tool": (
        f"list_contains(list_transform(flatten(solution), lambda call: {_CALLED}), {{value}})",
        f"select {_CALLED} as tool from (select unnest(flatten(solution)) as call from tasks) "
        "group by tool having tool <> '' order by count(*) desc, tool",
    ),
    "status": (
        "status = {value}",
        "select unnest(['solved', 'partly', 'failed', 'never visited'])",
    ),
}


@view.never_raises
def signal_browser(run: Any, page_size: int = 20) -> W.Widget:
    """Weakness signals, newest first, filtered by kind, round, tool, origin and status; pick one to see its trajectory.

    >>> signal_browser(run)
    """
    return Browser(
        run, SIGNALS, _SIGNAL_ORDER, SIGNAL_FILTERS, SIGNAL_COLUMNS, _trajectory_of_signal, page_size, SIGNAL_DETAILS
    )


@view.never_raises
def task_set_view(run: Any, page_size: int = 20) -> W.Widget:
    """D_t, newest first, filtered by origin, round, tool and how the policy last fared; pick one for its whole story.

    >>> task_set_view(run)

    similarity: of the draft to the nearest evaluation task.
    """
    return Browser(run, _TASKS, "round desc, id", _TASK_FILTERS, _TASK_COLUMNS, task_page, page_size)


class Browser(view.View):
    """A paged table, and below it the row that was picked."""

    def __init__(
        self,
        run: Any,
        rows: str,
        order: str,
        filters: Any,
        columns: Any,
        detail: Any,
        page_size: int,
        details: str = "select * from page",
    ) -> None:
        super().__init__()
        self._reader, self._detail = view.reader_of(run), detail
        self.detail = view.html()
        self.detail.add_class("coevolve-detail")
        self.rows = PagedTable(self._reader, rows, order, filters, self.open_row, page_size, columns, details)
        self.fill([self.rows, self.detail])

    def open_row(self, row_id: str) -> None:
        """Show a row's story below the table."""
        with self.guarded():
            self.detail.value = markup.wrap(self._detail(self._reader, row_id))

    def plain(self) -> tuple[str, str]:
        return self.rows.plain()


def _trajectory_of_signal(reader: Any, signal_id: str) -> str:
    found = chain.signal(reader, signal_id)
    return trajectory_html(reader, found["trajectory_id"]) if found else markup.muted("no such signal")
