"""Views that follow what goes on elsewhere: a thread looks, until the view is closed or a newer one takes its place.

ipywidgets keeps every widget until it is closed, so a view never learns that nobody looks at it any more: without the
second, each time that a cell is executed would leave one more thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable

from coevolve_lab.widgets import markup, view
from coevolve_lab.widgets.figure import LiveFigure

_followers: dict[Hashable, Following] = {}  # the newest view of each thing


class Following(view.View):
    """A status line, a figure, and a thread that refreshes them. Subclasses give ``refresh``, which holds ``_mutex``
    and says its status with ``say``, and ``over``: whether there will be nothing more to see."""

    live: LiveFigure

    def __init__(self) -> None:
        super().__init__()
        self.status_line = view.html()
        self.status_line.add_class("coevolve-status")
        self._mutex, self._closing = threading.Lock(), threading.Event()
        self._followed: Hashable = None
        self._line_said, self._note = "", ""

    def refresh(self) -> None:
        """Look now."""
        raise NotImplementedError

    def over(self) -> bool:
        raise NotImplementedError

    def say(self, line: str) -> None:
        """Show this HTML as the status."""
        self._line_said = line
        shown = markup.wrap(line + self._note)
        if self.status_line.value != shown:
            self.status_line.value = shown

    def follow(self, what: Hashable, every: float, name: str) -> None:
        """Look every so many seconds; an earlier view of the same thing stops looking and says so. name: of the thread.

        Not an asyncio task: that would stand still while a cell, or one of the view's buttons, runs a round.
        """
        before = _followers.get(what)
        self._followed, _followers[what] = what, self
        if before is not None:
            before._give_way()
        threading.Thread(target=self._look_on, args=(every,), name=name, daemon=True).start()

    def close(self) -> None:
        """Stop looking, and remove the widgets."""
        self._closing.set()
        if _followers.get(self._followed) is self:
            del _followers[self._followed]
        with self._mutex:
            self.live.widget.close()
            super().close()

    def _give_way(self) -> None:
        self._closing.set()
        with self._mutex:
            self._note = " · " + markup.muted("a newer view follows this; execute the cell again to follow it here")
            self.say(self._line_said)

    def _look_on(self, every: float) -> None:
        """At most half of the time goes into it."""
        wait = every
        while not self._closing.wait(wait):
            began = time.monotonic()
            self.refresh()
            if self.over():
                return
            wait = max(every, time.monotonic() - began)
