"""A table that is filtered in SQL and shown a page at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ipywidgets as W
import polars as pl

from coevolve_lab.store import RunReader
from coevolve_lab.widgets import markup, view
from coevolve_lab.widgets.chain import quoted

ANY = "any"
MOST_CHOICES = 200  # in one filter's list


class PagedTable(view.View):
    """Rows of one SELECT, twenty at a time, with a filter for each given column, and a row to pick.

    rows: a SELECT with a column ``id`` to pick by; order: columns to sort by. filters: label -> a condition with
    ``{value}`` in it, and a SELECT for the choices. read: what is done with a page's rows before they are shown.
    on_pick: called with the id of the row that was picked.
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
    ) -> None:
        super().__init__()
        self._reader, self._rows, self._order, self._columns = reader, rows, order, columns
        self._conditions = {label: condition for label, (condition, _) in filters.items()}
        self._on_pick, self._size, self._page, self._filling = on_pick, page_size, 0, False
        self.filters = {label: self._filter(label, choices) for label, (_, choices) in filters.items()}
        self.earlier = view.button("← earlier", "the page before", "coevolve-earlier", lambda: self.turn(-1))
        self.later = view.button("later →", "the page after", "coevolve-later", lambda: self.turn(1))
        self.again = view.button("refresh", "read the run again", "coevolve-refresh", self.refresh)
        self.where = W.HTML()
        self.table = view.html()
        self.table.add_class("coevolve-table")
        self.pick = W.Dropdown(description="open", layout={"width": "auto", "max_width": "700px"})
        self.pick.add_class("coevolve-pick")
        self.pick.observe(self._picked, "value")
        bar = W.HBox([*self.filters.values(), self.again], layout={"flex_flow": "row wrap"})
        pages = W.HBox([self.earlier, self.later, self.where, *([self.pick] if on_pick else [])])
        self.fill([bar, pages, self.table])
        self.refresh()

    def turn(self, pages: int) -> None:
        """Show a later (or, negative, an earlier) page."""
        self._page = max(0, self._page + pages)
        self.refresh()

    def refresh(self) -> None:
        """Read the page again."""
        with self.guarded():
            page, count = self.page()
            last = max(0, (count - 1) // self._size)
            if self._page > last:
                self._page = last
                page, count = self.page()
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
        chosen = [
            self._conditions[label].replace("{value}", quoted(widget.value))
            for label, widget in self.filters.items()
            if widget.value != ANY
        ]
        where = f" where {' and '.join(chosen)}" if chosen else ""
        count = self._reader.sql(f"with rows as ({self._rows}) select count(*) as n from rows{where}")["n"][0]
        offset = self._page * self._size
        shown = self._reader.sql(
            f"with rows as ({self._rows}) select * from rows{where} order by {self._order} "
            f"limit {self._size} offset {offset}"
        )
        return shown, int(count)

    def plain(self) -> tuple[str, str]:
        page, count = self.page()
        return f"{page.height} of {count} rows\n{page}", f"{self._html(page)}{markup.muted(f'{count:,} in all')}"

    def _html(self, page: pl.DataFrame) -> str:
        if page.is_empty():
            return markup.muted("nothing here yet, or nothing that passes these filters")
        shown = page.select(self._columns) if self._columns else page
        return markup.table(shown.columns, shown.rows())

    def _filter(self, label: str, choices: str) -> W.Dropdown:
        found = self._reader.sql(f"select * from ({choices}) limit {MOST_CHOICES}").to_series(0).drop_nulls()
        made = W.Dropdown(
            options=[ANY, *map(str, found.to_list())],
            description=label,
            layout={"width": "194px"},
            style={"description_width": "46px"},
        )
        made.add_class(f"coevolve-filter-{label}")

        def filtered(_: Any) -> None:
            self._page = 0
            self.refresh()

        made.observe(filtered, "value")
        return made

    def _picked(self, change: Any) -> None:
        if self._filling or not change["new"] or self._on_pick is None:
            return
        with self.guarded():
            self._on_pick(change["new"])
