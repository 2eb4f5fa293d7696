"""Drafts that wait for a person: read one, accept, reject or edit it, and the run goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets as W
import polars as pl

from coevolve_lab import review
from coevolve_lab.background import Background
from coevolve_lab.config import load_config
from coevolve_lab.records import Decision, Verdict
from coevolve_lab.store import RunReader, quoted
from coevolve_lab.store.mailbox import posted_reviews
from coevolve_lab.widgets import markup, view
from coevolve_lab.widgets.draft_editor import DraftEditor, Parts
from coevolve_lab.widgets.draft_page import draft_page, held_row
from coevolve_lab.widgets.paging import PagedTable

WHICH = ("waiting", "decided", "all")
_WAITS = "v.outcome = 'held' and not exists (select 1 from reviews r where r.draft_id = v.draft_id)"
_HELD = f"""
select v.draft_id as id, v.round, case when v.reason = 'risk' then 'risk: ' || v.detail else v.reason end as why,
       v.reason, d.origin, case when length(d.turns[1]) > 120 then left(d.turns[1], 120) || ' …' else d.turns[1] end
       as query, len(d.turns) as turns, len(flatten(d.solution)) as calls, v.similarity
from verdicts v join drafts d on d.id = v.draft_id where {_WAITS}
"""
_ORDER = "round, length(id), id"  # ids end in numbers
_COLUMNS = ("id", "round", "why", "origin", "query", "turns", "calls", "similarity", "decision")
_REASONS = {"reason": ("reason = {value}", f"select distinct reason from ({_HELD}) order by 1")}
_PAST = {"accept": "accepted", "reject": "rejected", "edit": "edited"}
_SWITCH_ON = (
    "This run's evolution.review is auto: drafts that pass validation enter the task set by themselves. To decide "
    "first, set evolution.review in the config to manual (every draft waits) or risk (those that a risk rule marks "
    "wait): CoEvolve(config, run_dir, evolution={'review': 'manual'}), or for a run that exists "
    "run.fork(round, evolution={'review': 'manual'})."
)


@view.never_raises
def task_review(run: Any, page_size: int = 10) -> W.Widget:
    """Decide about the drafts that ``evolution.review`` (manual or risk) holds before they enter D_t.

    >>> task_review(run)

    run: a CoEvolve, a RunReader or a run folder, which a background run may be writing: decisions are files that the
    run takes up when its next round begins, and each can be changed until then.
    """
    return TaskReview(run, page_size)


class TaskReview(view.View):
    """See ``task_review``. ``open_draft`` shows a draft; the buttons decide about it."""

    def __init__(self, run: Any, page_size: int = 10) -> None:
        super().__init__()
        self._reader = view.reader_of(run)
        self._config = load_config(self._reader.config)
        self._background = Background(self._reader.run_dir)
        self._draft: dict[str, Any] | None = None
        self.summary, self.said, self.page = view.html(), view.html(), view.html()
        for widget, css in ((self.summary, "summary"), (self.said, "said"), (self.page, "draft")):
            widget.add_class(f"coevolve-{css}")
        self.which = W.ToggleButtons(options=WHICH, style={"button_width": "80px"})
        self.which.add_class("coevolve-which")
        self.drafts = HeldDrafts(self._reader, self.open_draft, page_size)
        self.which.observe(lambda _: self.drafts.show(self.which.value), "value")
        self.reason = W.Text(placeholder="why? (asked for when you reject)", layout={"width": "420px"})
        self.reason.add_class("coevolve-reason")
        self.accept = view.button("accept", "it enters the task set", "coevolve-accept", lambda: self._one("accept"))
        self.reject = view.button(
            "reject", "it stays out, with your reason", "coevolve-reject", lambda: self._one("reject")
        )
        self.edit = W.ToggleButton(False, description="edit", tooltip="change its text", layout={"width": "auto"})
        self.edit.add_class("coevolve-edit")
        self.edit.observe(lambda _: self._toggle_editor(), "value")
        self.editor = DraftEditor(self._check, self._save, self.guarded)
        self.buttons = W.HBox([self.accept, self.reject, self.edit, self.reason])
        self.sure = W.ToggleButton(False, description="decide about all shown …", layout={"width": "auto"})
        self.sure.add_class("coevolve-sure")
        self.sure.observe(lambda _: self._toggle_all(), "value")
        self.why_all = W.Text(placeholder="why? (asked for when you reject)", layout={"width": "320px"})
        self.accept_all = view.button("", "", "coevolve-accept-all", lambda: self._all("accept"))
        self.reject_all = view.button("", "", "coevolve-reject-all", lambda: self._all("reject"))
        self.confirm = W.HBox([self.accept_all, self.reject_all, self.why_all])
        bulk = W.HBox([self.which, self.sure, self.confirm], layout={"flex_flow": "row wrap", "align_items": "center"})
        self.fill([self.summary, bulk, self.drafts, self.said, self.buttons, self.editor, self.page])
        self.drafts.after_read = self._list_changed
        self._open_next()

    def open_draft(self, draft_id: str) -> None:
        """Show one draft, to decide about it, or to change what was decided."""
        with self.guarded():
            self._open(draft_id)

    def refresh(self) -> None:
        """Read the run and the decisions again."""
        self.drafts.refresh()

    def plain(self) -> tuple[str, str]:
        page, count = self.drafts.page()
        said = self._state()
        body = markup.table(_COLUMNS, page.select(_COLUMNS).rows()) if count else ""
        shown = f"\n{page.height} of {count} drafts ({self.which.value})\n{page.select(_COLUMNS)}" if count else ""
        return said + shown, f"<p>{markup.text(said)}</p>{body}"

    # ---- deciding

    def _one(self, decision: Decision, parts: Parts = ((), ())) -> None:
        with self.guarded():
            if self._draft is None:
                return
            draft_id, reason = self._draft["id"], self.reason.value.strip()
            if decision == "reject" and not reason:
                self._say("Say in a few words why, then press reject again: the reason stays with the draft.")
                return
            review.decide(self._reader, draft_id, decision, reason, *parts)
            self.refresh()
            self._open_next(draft_id, f"{draft_id} {_PAST[decision]}.")

    def _save(self, parts: Parts) -> None:
        self._one("edit", parts)

    def _check(self, parts: Parts) -> Verdict:
        assert self._draft is not None
        return review.check_edit(self._config, self._reader, self._draft["id"], *parts)

    def _all(self, decision: Decision) -> None:
        """Decide about the drafts of this page that nobody has decided about."""
        with self.guarded():
            reason = self.why_all.value.strip()
            if not self.sure.value:
                return
            if decision == "reject" and not reason:
                self._say("Say in a few words why, then press the button again: the reason stays with the drafts.")
                return
            waiting = set(review.undecided(self._reader))  # the run, or somebody else, may have been faster
            shown = self.drafts.undecided()
            chosen = [name for name in shown if name in waiting]
            for draft_id in chosen:
                review.decide(self._reader, draft_id, decision, reason)
            self.sure.value, self.why_all.value = False, ""
            self.refresh()
            gone = len(shown) - len(chosen)
            late = f" {gone} of those shown no longer waited." if gone else ""
            self._open_next("", f"{len(chosen)} drafts {_PAST[decision]}.{late}")

    def _open_next(self, after: str = "", said: str = "") -> None:
        """Open the next draft in the list that nobody has decided about."""
        with self.guarded():
            _, decided = self._summarize()
            held = self.drafts.passing()
            place = held.index(after) + 1 if after in held else 0
            chosen = next((name for name in (*held[place:], *held[:place]) if name not in decided), None)
            self._say(said)
            if chosen is not None:
                self._open(chosen)
                return
            self._draft = None
            self.page.value, self.buttons.layout.display = markup.wrap(""), "none"
            self.editor.clear()
            self.drafts.mark("")

    # ---- inside

    def _open(self, draft_id: str) -> None:
        self._draft = row = held_row(self._reader, draft_id)
        self.edit.value = False
        self.editor.clear()
        self.drafts.mark(draft_id)
        self.buttons.layout.display = None if row else "none"
        if row is None:
            self.page.value = markup.wrap(markup.muted(f"draft {draft_id} does not wait: the run has taken it up"))
            return
        before = posted_reviews(self._reader.run_dir).get(draft_id)
        decided = ""
        self.reason.value = before.reason if before else ""
        if before:
            because = f": {markup.text(before.reason, 400)}" if before.reason else ""
            decided = (
                f"<p>{markup.tag(_PAST[before.decision], before.decision != 'reject')} by "
                f"{markup.text(before.reviewer, 80)}{because}. The run has not taken it up yet: decide again to "
                "change it.</p>"
            )
            if before.decision == "edit":
                decided += f"<b>The edit</b>{_edited(before.turns, before.solution)}<b>The draft as it was made</b>"
        self.page.value = markup.wrap(decided + draft_page(self._reader, row))

    def _toggle_editor(self) -> None:
        with self.guarded():
            if not self.edit.value or self._draft is None:
                self.editor.clear()
                return
            before = posted_reviews(self._reader.run_dir).get(self._draft["id"])
            begin = before if before is not None and before.decision == "edit" else None
            turns, solution = (
                (begin.turns, begin.solution) if begin else (self._draft["turns"], self._draft["solution"])
            )
            self.editor.show_draft(turns, solution)

    def _toggle_all(self) -> None:
        with self.guarded():
            self._count_shown()

    def _list_changed(self) -> None:
        with self.guarded():
            self.sure.value = False  # it was said of the rows that were shown then
            held, _ = self._summarize()
            if self._draft is not None and self._draft["id"] not in held:  # the run has taken it up since
                self._open(self._draft["id"])

    def _count_shown(self) -> None:
        count = len(self.drafts.undecided())
        self.accept_all.description, self.reject_all.description = f"accept these {count}", f"reject these {count}"
        self.accept_all.disabled = self.reject_all.disabled = not count
        self.confirm.layout.display = None if self.sure.value else "none"

    def _summarize(self) -> tuple[list[str], set[str]]:
        """Say how things stand; returns the ids of the held drafts, in the list's order, and of those decided."""
        held, decided = self.drafts.standing()
        self.summary.value = markup.wrap(f"<p>{markup.text(self._state())}</p>")
        self._count_shown()
        return held, decided

    def _state(self) -> str:
        held, decided = self.drafts.standing()
        waiting, mode = len(held) - len(decided), self._config.evolution.review
        if not held:
            none = "No draft waits for a decision. "
            return none + (_SWITCH_ON if mode == "auto" else f"Review mode: {mode}. {self._next(0)}")
        return (
            f"{waiting} {_drafts(waiting)} for a decision; {len(decided)} decided, not yet taken up by the run. "
            f"Review mode: {mode}. {self._next(waiting)}"
        )

    def _next(self, waiting: int) -> str:
        status = self._background.status()
        once = "once all are decided" if waiting else "now"
        if self._config.evolution.review == "auto":  # a fork of a run that was reviewed
            return "A run in this mode does not wait: it takes decisions up when its next round begins."
        if status.state == "running" and status.stage == "review":
            return f"A background run waits for this: it goes on by itself {once}."
        if status.state == "running":
            return f"A background run is busy with round {status.round}; it takes decisions up before its next round."
        if status.state == "paused":
            return f"The background run is paused: run.resume() goes on {once}."
        return f"run.round() goes on {once} (run.start() in the background)."

    def _say(self, said: str) -> None:
        self.said.value = markup.wrap(f"<b>{markup.text(said)}</b>" if said else "")


class HeldDrafts(PagedTable):
    """The drafts that wait for a person or for the run to take a decision up."""

    after_read: Callable[[], None] | None = None  # called when other rows are shown

    def __init__(self, reader: RunReader, on_pick: Callable[[str], None], page_size: int) -> None:
        self._which = WHICH[0]
        super().__init__(reader, _HELD, _ORDER, _REASONS, on_pick, page_size, _COLUMNS)

    def refresh(self) -> None:
        super().refresh()
        if self.after_read is not None:
            self.after_read()

    def show(self, which: str) -> None:
        """One of WHICH, from the first page on."""
        self._which, self._page = which, 0
        self.refresh()

    def mark(self, draft_id: str) -> None:
        """Let the list's own choice be this draft, without opening it again."""
        self._filling = True
        try:
            self.pick.value = draft_id if draft_id in self.pick.options else ""
        finally:
            self._filling = False

    def standing(self) -> tuple[list[str], set[str]]:
        """Ids of all held drafts, in this order, and of those that somebody has decided about."""
        held = self._reader.sql(f"select id from ({_HELD}) order by {_ORDER}")["id"].to_list()
        return held, set(posted_reviews(self._reader.run_dir)) & set(held)

    def passing(self) -> list[str]:
        """Ids of the held drafts that pass the filter, in this order, whichever of WHICH is shown."""
        where = self.condition(narrowed=False)
        return self._reader.sql(f"with rows as ({_HELD}) select id from rows{where} order by {_ORDER}")["id"].to_list()

    def undecided(self) -> list[str]:
        """Ids of the drafts of this page that nobody has decided about."""
        posted = posted_reviews(self._reader.run_dir)
        return [name for name in self.shown["id"] if name not in posted] if self.shown.width else []

    def page(self) -> tuple[pl.DataFrame, int]:
        posted = posted_reviews(self._reader.run_dir)
        names = ", ".join(map(quoted, posted)) or "null"
        within = f"id in ({names})"
        self._narrow = {"waiting": f"not coalesce({within}, false)", "decided": within, "all": ""}[self._which]
        shown, count = super().page()
        said = [_PAST[posted[name].decision] if name in posted else WHICH[0] for name in shown["id"]]
        return shown.with_columns(pl.Series("decision", said, dtype=pl.String)), count


def _drafts(count: int) -> str:
    return "draft waits" if count == 1 else "drafts wait"


def _edited(turns: Sequence[str], solution: Sequence[Sequence[str]]) -> str:
    return "".join(
        markup.block(said) + markup.block("\n".join(calls)) for said, calls in zip(turns, solution, strict=False)
    )
