"""Text areas for a draft's turns and calls, which can be saved only as they were when validation passed them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import ipywidgets as W

from coevolve_lab.errors import CoEvolveError
from coevolve_lab.records import Verdict
from coevolve_lab.widgets import markup, view

MOST_TURNS = 20  # that are offered for editing
Parts = tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]  # turns, and the calls of each


class DraftEditor(W.VBox):
    """One draft's text. ``show_draft`` shows it, ``clear`` nothing.

    check: executes an edit and says what validation would; save: takes one that passed. Both get turns and solution.
    A turn of which both boxes are empty is left out.
    """

    def __init__(
        self,
        check: Callable[[Parts], Verdict],
        save: Callable[[Parts], None],
        guarded: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._check, self._save, self._guarded = check, save, guarded
        self._passed: Parts | None = None
        self._separator = "\n"
        self.turns: list[W.Textarea] = []
        self.calls: list[W.Textarea] = []
        self.check = view.button("check", "execute it now, as validation would", "coevolve-check", self._on_check)
        self.save = view.button("save the edit", "leave it for the run", "coevolve-save-edit", self._on_save)
        self.verdict = view.html()
        self.verdict.add_class("coevolve-edit-verdict")
        super().__init__()
        self.add_class("coevolve-editor")
        self.clear()

    def show_draft(self, turns: Sequence[str], solution: Sequence[Sequence[str]]) -> None:
        """Offer a draft's own text."""
        self.clear()
        several_lines = any("\n" in call for turn in solution for call in turn)
        self._separator = "\n\n" if several_lines else "\n"
        cut = any("\n\n" in call for turn in solution for call in turn)
        if len(turns) > MOST_TURNS or cut:
            why = "calls with empty lines in them" if cut else f"more than {MOST_TURNS} turns"
            said = f"This draft has {why}, which does not fit in these boxes: use run.decide(draft_id, 'edit', ...)."
            self.children = [W.HTML(markup.wrap(markup.muted(said)))]
            self.layout.display = None
            return
        self.turns = [self._box(said, 2) for said in turns]
        self.calls = [self._box(self._separator.join(calls), max(2, min(10, len(calls) + 1))) for calls in solution]
        how = "an empty line between two calls" if several_lines else "one call a line"
        many = "; leave both boxes of a turn empty to drop it" if len(turns) > 1 else ""
        rows: list[W.Widget] = [W.HTML(markup.wrap(markup.muted(f"What the user says, and its calls: {how}{many}.")))]
        for i, (said, calls) in enumerate(zip(self.turns, self.calls, strict=True)):
            label = W.Label(f"turn {i + 1}", layout={"width": "52px"})
            rows.append(W.HBox([label, said, calls], layout={"width": "100%"}))
        self.children = [*rows, W.HBox([self.check, self.save, self.verdict], layout={"align_items": "center"})]
        self.layout.display, self.save.disabled, self.verdict.value = None, True, ""

    def clear(self) -> None:
        self.children, self._passed = [], None
        self.turns, self.calls = [], []
        self.layout.display = "none"

    def parts(self) -> Parts:
        """What is in the boxes now."""
        pairs = [
            (said.value.strip(), tuple(call.strip() for call in calls.value.split(self._separator) if call.strip()))
            for said, calls in zip(self.turns, self.calls, strict=True)
        ]
        kept = [(said, calls) for said, calls in pairs if said or calls]
        return tuple(said for said, _ in kept), tuple(calls for _, calls in kept)

    def _box(self, text: str, rows: int) -> W.Textarea:
        made = W.Textarea(text, rows=rows, layout={"width": "50%", "min_width": "220px"})
        made.observe(lambda _: self._changed(), "value")
        return made

    def _changed(self) -> None:
        passed = self._passed is not None and self._passed == self.parts()
        self.save.disabled = not passed
        if self._passed is not None and not passed:
            self.verdict.value = markup.wrap(markup.muted("changed since it was checked: check it again"))

    def _on_check(self) -> None:
        with self._guarded():
            parts, self._passed, self.check.disabled = self.parts(), None, True
            try:
                verdict = self._check(parts)
            except CoEvolveError as failure:  # beside the boxes, where it can be mended
                self.verdict.value = markup.wrap(markup.error(failure))
            else:
                good = verdict.outcome == "accepted"
                self._passed = parts if good else None
                label = markup.tag("passes" if good else "does not pass", good)
                self.verdict.value = markup.wrap(
                    f"{label} <b>{markup.text(verdict.reason)}</b> {markup.text(verdict.detail)}"
                )
            finally:
                self.check.disabled = False
                self.save.disabled = self._passed is None

    def _on_save(self) -> None:
        if self._passed is not None and self._passed == self.parts():
            self._save(self._passed)
