"""A table that is filtered in SQL and shown a page at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ipywidgets as W
import polars as pl

from coevolve_lab.store import RunReader, quoted
from coevolve_lab.widgets import markup, view

ANY = "any"
MOST_CHOICES = 200  # in one filter's list


class PagedTable(view.View):
    """Rows of one SELECT, twenty at a time, with a filter for each given column, and a row to pick.

    rows: a SELECT with a column ``id`` to pick by; order: columns to sort by. filters: label -> a condition with
    ``{value}`` in it, and a SELECT for the choices. on_pick: called with the id of the row that was picked.
    details: a SELECT over ``page``, the rows that are shown, which joins what only they need. counted: a cheaper SELECT
    than ``rows`` with as many rows and the columns that the conditions use. on_filter: called when another choice was
    made in a filter, or the run was read again.
    """

    def __init__(
        self,
        reader: RunReader,
        rows: str,
        order: str,
        filters: Mapping[str, tuple[str, str]],
        on_pick: Callable[[str], None] | None = None,
        page_size: int = 20,
        columns: Sequence[str] = (),
        details: str = "select * from page",
        counted: str = "",
        on_filter: Callable[[], None] | None = None,
    ) -> None:
        if not isinstance(page_size, int) or page_size < 1:
            raise ValueError(f"page_size is a number of rows, at least 1; got {page_size!r}")
        super().__init__()
        self._reader, self._rows, self._order, self._columns = reader, rows, order, columns
        self._details, self._counted, self._on_filter = details, counted or rows, on_filter
        self._conditions = {label: condition for label, (condition, _) in filters.items()}
        self._choices = {label: choices for label, (_, choices) in filters.items()}
        self._on_pick, self._size, self._page, self._filling, self._narrow = on_pick, page_size, 0, False, ""
        self.shown = pl.DataFrame()
        self.filters = {label: self._filter(label) for label in filters}
        self.earlier = view.button("← earlier", "the page before", "coevolve-earlier", lambda: self.turn(-1))
        self.later = view.button("later →", "the page after", "coevolve-later", lambda: self.turn(1))
        self.again = view.button("refresh", "read the run again", "coevolve-refresh", self._reload)
        self.where = W.HTML()
        self.table = view.html()
        self.table.add_class("coevolve-table")
        self.pick = W.Dropdown(description="open", layout={"width": "auto", "max_width": "700px"})
        self.pick.add_class("coevolve-pick")
        self.pick.observe(self._picked, "value")
        bar = W.HBox(list(self.filters.values()), layout={"flex_flow": "row wrap"})
        pages = W.HBox([self.earlier, self.later, self.where, *([self.pick] if on_pick else []), self.again])
        self.fill([bar, pages, self.table])
        with self.guarded():
            self._offer_choices()
        if not self.error:
            self.refresh()

    def turn(self, pages: int) -> None:
        """Show a later (or, negative, an earlier) page."""
        self._page = max(0, self._page + pages)
        self.refresh()

    def narrow(self, condition: str) -> None:
        """Show only rows that also meet this SQL condition ("": all), from the first page on."""
        self._narrow, self._page = condition, 0
        self.refresh()

    def refresh(self) -> None:
        """Read the page again."""
        with self.guarded():
            page, count = self.page()
            last = max(0, (count - 1) // self._size)
            if self._page > last:
                self._page = last
                page, count = self.page()
            self.shown = page
            first = self._page * self._size
            self.where.value = f"{min(first + 1, count):,}-{first + page.height:,} of {count:,}"
            self.earlier.disabled, self.later.disabled = self._page == 0, self._page >= last
            self.table.value = markup.wrap(self._html(page))
            self._filling = True
            try:
                kept = self.pick.value
                self.pick.options = ["", *page["id"].to_list()]
                self.pick.value = kept if kept in self.pick.options else ""
            finally:
                self._filling = False

    def page(self) -> tuple[pl.DataFrame, int]:
        """The rows of the present page, and how many there are on all pages."""
        where = self.condition()
        count = self._reader.sql(f"with rows as ({self._counted}) select count(*) as n from rows{where}")["n"][0]
        offset = self._page * self._size
        shown = self._reader.sql(
            f"with rows as ({self._rows}), page as materialized (select * from rows{where} order by {self._order} "
            f"limit {self._size} offset {offset}) select * from ({self._details}) order by {self._order}"
        )
        return shown, int(count)

    def condition(self, narrowed: bool = True) -> str:
        """The WHERE clause on ``rows`` that the filters make, "" for none. narrowed: with what ``narrow`` added."""
        chosen = [
            self._conditions[label].replace("{value}", quoted(widget.value))
            for label, widget in self.filters.items()
            if widget.value != ANY
        ]
        if narrowed and self._narrow:
            chosen.append(self._narrow)
        return f" where {' and '.join(f'({one})' for one in chosen)}" if chosen else ""

    def plain(self) -> tuple[str, str]:
        page, count = self.page()
        return f"{page.height} of {count} rows\n{page}", f"{self._html(page)}{markup.muted(f'{count:,} in all')}"

    def _html(self, page: pl.DataFrame) -> str:
        if page.is_empty():
            return markup.muted("nothing here yet, or nothing that passes these filters")
        shown = page.select(self._columns) if self._columns else page
        return markup.table(shown.columns, shown.rows())

    def _filter(self, label: str) -> W.Dropdown:
        made = W.Dropdown(
            options=[ANY],
            description=label,
            layout={"width": "178px"},
            style={"description_width": "56px"},
        )
        made.add_class(f"coevolve-filter-{label}")

        def filtered(_: Any) -> None:
            if self._filling:
                return
            self._page = 0
            self.refresh()
            self._filtered()

        made.observe(filtered, "value")
        return made

    def _offer_choices(self) -> None:
        """What each filter can be set to; all in one query, because every query opens all parts of its tables."""
        if not self.filters:
            return
        lists = (
            f"select {i} as place, list(columns(*)::varchar) as choices from (select * from ({choices}) "
            f"limit {MOST_CHOICES})"
            for i, choices in enumerate(self._choices.values())
        )
        found = dict(self._reader.sql(" union all ".join(lists)).rows())
        self._filling = True
        try:
            for i, widget in enumerate(self.filters.values()):
                choices = [value for value in found[i] or [] if value is not None]
                kept = widget.value
                widget.options = [ANY, *dict.fromkeys([*choices, *([kept] if kept != ANY else [])])]
                widget.value = kept
        finally:
            self._filling = False

    def _reload(self) -> None:
        with self.guarded():
            self._offer_choices()
        if not self.error:
            self.refresh()
            self._filtered()

    def _filtered(self) -> None:
        if self._on_filter is not None:
            with self.guarded():
                self._on_filter()

    def _picked(self, change: Any) -> None:
        if self._filling or not change["new"] or self._on_pick is None:
            return
        with self.guarded():
            self._on_pick(change["new"])
