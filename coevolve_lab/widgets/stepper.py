"""One weakness, step by step: from the signal to the task that it led to, and from a task back to what caused it."""

from __future__ import annotations

from typing import Any

import ipywidgets as W

from coevolve_lab.widgets import chain, markup, pages, view
from coevolve_lab.widgets.browsers import SIGNAL_COLUMNS, SIGNAL_FILTERS, SIGNALS
from coevolve_lab.widgets.paging import PagedTable
from coevolve_lab.widgets.replay import trajectory_html

STAGES = ("signal", "trajectory", "group", "context", "exploration", "drafts", "task")
# Signals that something came of first: most were never reflected on.
_ORDER = '"led to tasks" desc, round desc, step desc, id'
_LED_TO = f"""
select r.*, coalesce(c.n, 0) as "led to tasks" from ({SIGNALS}) r left join (
    select c.signal_id, count(distinct t.id) as n from contexts c join drafts d on d.context_id = c.id
    join tasks t on t.draft_id = d.id where c.signal_id is not null group by c.signal_id
) c on c.signal_id = r.id
"""


@view.never_raises
def step_through(run: Any, signal_id: str | None = None, task_id: str | None = None) -> W.Widget:
    """Follow one weakness through the ring.

    >>> step_through(run)                       # pick a signal
    >>> step_through(run, task_id="task-...")    # what caused this task?

    Links that are missing (a signal nobody reflected on, a rejected draft, an unguided context) are said plainly.
    """
    made = StepThrough(run)
    if task_id is not None:
        made.show_task(task_id)
    elif signal_id is not None:
        made.show_signal(signal_id)
    return made


class StepThrough(view.View):
    """See ``step_through``. ``show_signal``, ``show_task`` and ``show_stage`` do what the buttons do."""

    def __init__(self, run: Any) -> None:
        super().__init__()
        self._reader = view.reader_of(run)
        self._signal: dict[str, Any] | None = None
        self._filling = False
        columns = ("id", "kind", "round", "score", "pattern", "led to tasks", "task_id")
        assert set(columns) - {"led to tasks"} <= set(SIGNAL_COLUMNS)
        self.signals = PagedTable(self._reader, _LED_TO, _ORDER, SIGNAL_FILTERS, self.show_signal, 8, columns)
        self.stages = W.ToggleButtons(options=STAGES, style={"button_width": "108px"})
        self.stages.add_class("coevolve-stages")
        self.context = W.Dropdown(description="context", layout={"width": "330px"})
        self.task = W.Combobox(description="task", placeholder="a task id", layout={"width": "330px"})
        self.back = view.button("what caused this task?", "to its signal", "coevolve-back", self._back)
        self.page = view.html()
        self.page.add_class("coevolve-page")
        self.stages.observe(lambda _: self._turn(), "value")
        self.context.observe(lambda _: self._turn(), "value")
        self.task.observe(lambda _: self._turn(), "value")
        picks = W.HBox([self.context, self.task, self.back], layout={"flex_flow": "row wrap"})
        self.fill([self.signals, self.stages, picks, self.page])
        with self.guarded():
            first, _ = self.signals.page()
            if first.height:
                self.show_signal(first["id"][0])
            else:
                self.page.value = markup.wrap(
                    markup.muted("no signals yet: they come with the first round of training")
                )

    def show_signal(self, signal_id: str, stage: str = "signal") -> None:
        """Begin at a signal."""
        with self.guarded():
            self._signal = chain.signal(self._reader, signal_id)
            contexts = chain.contexts(self._reader, signal_id)
            self._offer([context["id"] for context in contexts])
            self._filling = True
            self.stages.value = stage
            self._filling = False
            self._show(signal_id)

    def show_task(self, task_id: str) -> None:
        """Begin at a task, and find what caused it."""
        with self.guarded():
            origin = chain.cause(self._reader, task_id)
            if origin is None:
                self.page.value = markup.wrap(pages.task_page(self._reader, task_id))
                return
            self._signal = chain.signal(self._reader, origin["signal_id"]) if origin["signal_id"] else None
            contexts = chain.contexts(self._reader, origin["signal_id"]) if origin["signal_id"] else []
            names = [context["id"] for context in contexts] or ([origin["context_id"]] if origin["context_id"] else [])
            self._offer(names, origin["context_id"], task_id)
            self._filling = True
            self.stages.value = "task"
            self._filling = False
            self._show("")

    def show_stage(self, stage: str) -> None:
        """One of STAGES."""
        self.stages.value = stage

    def plain(self) -> tuple[str, str]:
        name = self._signal["id"] if self._signal else "no signal"
        body = "".join(f"<h3>{stage}</h3>{self._page(stage)}" for stage in STAGES)
        page, count = self.signals.page()
        return f"step_through: {name} ({count} signals)\n{page.select('id', 'kind', 'round', 'led to tasks')}", body

    # ---- inside

    def _offer(self, contexts: list[str], context: str | None = None, task: str | None = None) -> None:
        self._filling = True
        try:
            self.context.options = contexts or [""]
            self.context.value = context if context in contexts else self.context.options[0]
            self._offer_tasks(task)
        finally:
            self._filling = False

    def _offer_tasks(self, task: str | None = None) -> None:
        found = self._context()
        rows = chain.drafts(self._reader, found["id"], found["round"]) if found else []
        self.task.options = [row["task_id"] for row in rows if row["task_id"]]
        self.task.value = task or (self.task.options[0] if self.task.options else "")
        self._tasks_of = found["id"] if found else None

    def _turn(self) -> None:
        if self._filling:
            return
        with self.guarded():
            found = self._context()
            if found and found["id"] != self._tasks_of:
                self._filling = True
                try:
                    self._offer_tasks()
                finally:
                    self._filling = False
            self._show("")

    def _show(self, signal_id: str) -> None:
        if signal_id and self._signal is None:
            self.page.value = markup.wrap(pages.signal_page(self._reader, signal_id))
        else:
            self.page.value = markup.wrap(self._page(self.stages.value))

    def _context(self) -> dict[str, Any] | None:
        return chain.context(self._reader, self.context.value) if self.context.value else None

    def _page(self, stage: str) -> str:
        signal, reader = self._signal, self._reader
        if stage in ("signal", "trajectory", "group"):
            if signal is None:
                return markup.muted("no signal leads here: what you look at began with unguided exploration")
            if stage == "signal":
                return pages.signal_page(reader, signal["id"])
            if stage == "trajectory":
                return trajectory_html(reader, signal["trajectory_id"])
            return pages.group_page(reader, signal["group_id"], signal["round"], signal["trajectory_id"])
        if stage == "task":
            if self.task.value:
                return pages.task_page(reader, self.task.value)
            return markup.muted("no task came of this context; its drafts say why")
        found = self._context()
        if found is None:
            return markup.muted("nobody reflected on this signal: a round reflects on some of its signals only")
        page = {
            "context": pages.context_page, "exploration": pages.exploration_page, "drafts": pages.drafts_page,
        }[stage]  # fmt: skip
        return page(reader, found)

    def _back(self) -> None:
        with self.guarded():
            origin = chain.cause(self._reader, self.task.value)
            if origin is None or origin["signal_id"] is None:
                self.page.value = markup.wrap(pages.task_page(self._reader, self.task.value))
                return
            self.show_task(self.task.value)
            self.show_signal(origin["signal_id"])
