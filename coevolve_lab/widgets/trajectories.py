"""All trajectories of a run: a histogram of their scores whose bars filter the list below it."""

from __future__ import annotations

from typing import Any

import ipywidgets as W
import plotly.graph_objects as go

from coevolve_lab.figures import style
from coevolve_lab.widgets import markup, view
from coevolve_lab.widgets.figure import LiveFigure
from coevolve_lab.widgets.paging import PagedTable
from coevolve_lab.widgets.replay import TrajectoryView

# 0 and 1 stand alone, because "failed" and "solved" mean exactly these; in between, tenths with their upper end.
WIDTH = 880  # both ends, failed and solved, are in sight beside a laptop's file browser
BINS = ("0", *(f"{i / 10:g}-{(i + 1) / 10:g}" for i in range(10)), "1")
# 0.7 * 10 is a little more than 7 in floating point and must not round up.
_BIN = "case when score <= 0 then 0 when score >= 1 then 11 else ceil(score * 10 - 1e-9)::bigint end"
_ROWS = f"""
select id, round, step, task_id, score, status, n_steps as steps, len(tools) as calls, n_tokens as tokens, purpose,
       tools, {_BIN} as bin from trajectories
"""
_DETAILS = """
select p.*, k.origin, s.signals from page p left join tasks k on k.id = p.task_id left join (
    select trajectory_id, string_agg(distinct kind, ', ' order by kind) as signals from signals
    where trajectory_id in (select id from page) group by trajectory_id
) s on s.trajectory_id = p.id
"""
_ORDER = "round desc, step desc, id"
_FILTERS = {
    "status": ("status = {value}", "select distinct status from trajectories order by 1"),
    "signal": (
        "id in (select trajectory_id from signals where kind = {value})",
        "select distinct kind from signals order by 1",
    ),
    "origin": (
        "task_id in (select id from tasks where origin = {value})",
        "select distinct origin from tasks order by 1",
    ),
    "round": ("round = {value}::bigint", "select distinct round from trajectories order by 1 desc"),
    "tool": (
        "list_contains(tools, {value})",
        "select tool from (select unnest(tools) as tool from trajectories) group by tool order by count(*) desc, tool",
    ),
    "purpose": ("purpose = {value}", "select distinct purpose from trajectories order by 1"),
}
_COLUMNS = (
    "id", "round", "step", "task_id", "origin", "score", "status", "steps", "calls", "tokens", "signals", "purpose",
)  # fmt: skip
_FADED = 0.3


@view.never_raises
def trajectory_browser(run: Any, page_size: int = 20) -> W.Widget:
    """Trajectories, newest first, and how their scores are spread; click a bar to list only what is in it.

    >>> trajectory_browser(run)

    The histogram counts what passes the filters (status, kind of signal, origin of the task, round, tool, train or
    evaluate). The slider chooses scores without a mouse. Pick a row to read it below, with its tokens on demand.
    Evaluation tasks are not in the task set, so their trajectories have no origin.
    """
    return TrajectoryBrowser(run, page_size)


class TrajectoryBrowser(view.View):
    """See ``trajectory_browser``. ``scores`` holds the first and the last bin that are listed."""

    def __init__(self, run: Any, page_size: int = 20) -> None:
        super().__init__()
        self._reader = view.reader_of(run)
        self._opened: TrajectoryView | None = None
        self.scores = W.SelectionRangeSlider(
            options=BINS, index=(0, len(BINS) - 1), description="scores", layout={"width": "420px"}, readout=False
        )
        self.scores.add_class("coevolve-scores")
        self.scores.observe(lambda _: self._narrow(), "index")
        self.listed = W.HTML("every score", layout={"min_width": "150px"})
        self.any_score = view.button("any score", "list every score again", "coevolve-any-score", self._clear)
        empty = style.figure("How the scores are spread", "score", "trajectories", height=250)
        empty.update_layout(margin={"t": 48, "b": 48}, width=WIDTH, dragmode=False, showlegend=False, bargap=0.12)
        empty.update_xaxes(type="category", categoryorder="array", categoryarray=list(BINS))
        empty.update_yaxes(tickformat=",d", exponentformat="none")
        self.live = LiveFigure(empty)
        self.below = W.VBox()
        self.below.add_class("coevolve-detail")
        self.rows = PagedTable(
            self._reader, _ROWS, _ORDER, _FILTERS, self.open_row, page_size, _COLUMNS, _DETAILS, on_filter=self.draw
        )
        chosen = W.HBox([self.scores, self.listed, self.any_score])
        self.fill([self.live.widget, chosen, self.rows, self.below])
        self.draw()

    def draw(self) -> None:
        """Count again what passes the filters, by score."""
        with self.guarded():
            counts = self.counts()
            first, last = self.scores.index
            shades = [1.0 if first <= i <= last else _FADED for i in range(len(BINS))]
            new = "trajectories" not in self.live.traces
            with self.live.batch():
                self.live.put(
                    "trajectories",
                    BINS,
                    counts,
                    kind=go.Bar,
                    change={"marker.opacity": shades, "text": [f"{n:,}" if n else "" for n in counts]},
                    marker={**style.bar(style.OTHERS[0]), "opacity": shades},
                    textposition="outside",
                    textfont={"color": style.GREY},  # legible on a light and on a dark ground
                    cliponaxis=False,
                    hovertemplate="score %{x}: %{y:,} trajectories<extra></extra>",
                )
            if new:  # here, because a first look at a damaged run draws nothing
                self.live.traces["trajectories"].on_click(self._clicked)

    def counts(self) -> list[int]:
        """Number of trajectories in each of BINS that pass the filters, whichever bins are listed."""
        where = self.rows.condition(narrowed=False)
        found = self._reader.sql(f"with rows as ({_ROWS}) select bin, count(*) as n from rows{where} group by bin")
        by_bin = dict(found.rows())
        return [by_bin.get(i, 0) for i in range(len(BINS))]

    def open_row(self, trajectory_id: str) -> None:
        """Show a trajectory below the list."""
        with self.guarded():
            if self._opened is None:
                self._opened = TrajectoryView(self._reader, trajectory_id)
                self.below.children = (self._opened,)
            else:
                self._opened.show(trajectory_id)

    def plain(self) -> tuple[str, str]:
        counts = {name: n for name, n in zip(BINS, self.counts(), strict=True) if n}
        text, html = self.rows.plain()
        head = markup.table(("score", *counts), [("trajectories", *counts.values())])
        return f"trajectories by score: {counts}\n{text}", head + html

    def _clicked(self, trace: Any, points: Any, state: Any) -> None:
        if points.point_inds:
            self.scores.index = (points.point_inds[0], points.point_inds[0])

    def _clear(self) -> None:
        self.scores.index = (0, len(BINS) - 1)

    def _narrow(self) -> None:
        with self.guarded():
            first, last = self.scores.index
            every = (first, last) == (0, len(BINS) - 1)
            one = f"score {BINS[first]}" if first == last else f"scores {BINS[first]} to {BINS[last]}"
            self.listed.value = "every score" if every else one
            self.rows.narrow("" if every else f"bin between {first} and {last}")
            self.draw()
