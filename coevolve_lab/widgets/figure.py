"""One plotly FigureWidget that is made once and then only given new numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import plotly.graph_objects as go

MOST_POINTS = 2000  # of one trace; more cannot be told apart at a notebook's width


class LiveFigure:
    """A FigureWidget whose traces are known by key: the first ``put`` of a key adds a trace, later ones update it.

    >>> live = LiveFigure(style.panels("Scores", ["score"], 1, 1, False, 400))
    >>> with live.batch():
    ...     live.put("reward", x, y, kind=go.Scatter, row=1, col=1, mode="lines")
    """

    def __init__(self, empty: go.Figure) -> None:
        self.widget = go.FigureWidget(empty)
        self._traces: dict[str, int] = {}
        self._changes: dict[int, dict[str, Any]] = {}

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Send what is put inside to the browser in one message."""
        yield
        changes, self._changes = self._changes, {}
        if not changes:
            return
        # Not ``batch_update``: where traces differ in what changed, it sends "undefined" for the rest, and the browser
        # then resets it. So every trace in the message gets every property.
        names = sorted({name for change in changes.values() for name in change})
        message = {
            name: [change.get(name, self.widget.data[i][name]) for i, change in changes.items()] for name in names
        }
        self.widget.plotly_restyle(message, list(changes))

    def put(
        self,
        key: str,
        x: Iterable[Any],
        y: Iterable[Any],
        kind: type = go.Scatter,
        row: int | None = None,
        col: int | None = None,
        secondary: bool = False,
        change: Mapping[str, Any] | None = None,
        **look: Any,
    ) -> None:
        """Show these points under ``key``. look: trace properties (name: the key), used when the trace is made; change:
        those that may be another each time. Later puts show at the end of a ``batch``."""
        values = {"x": _plain(x), "y": _plain(y), **(change or {})}
        if key not in self._traces:
            place = {"row": row, "col": col, "secondary_y": secondary or None} if row else {}
            self.widget.add_trace(kind(**{"name": key, **look, **values}), **place)
            self._traces[key] = len(self.widget.data) - 1
            return
        trace = self.widget.data[self._traces[key]]
        if not all(_same(trace[name], new) for name, new in values.items()):
            self._changes[self._traces[key]] = values

    @property
    def traces(self) -> dict[str, Any]:
        return {key: self.widget.data[i] for key, i in self._traces.items()}


def _plain(values: Iterable[Any]) -> Any:
    """Numbers as float32 (a third of the message), whatever else as it is."""
    listed = list(values)[:MOST_POINTS]
    if any(isinstance(value, str) for value in listed):
        return listed
    return np.asarray([np.nan if value is None else value for value in listed], dtype=np.float32)


def _same(old: Any, new: Any) -> bool:
    if isinstance(new, np.ndarray):
        if old is None or len(old) != len(new) or any(isinstance(value, str) for value in old):
            return False
        return bool(np.array_equal(np.asarray(old, dtype=np.float32), new, equal_nan=True))
    if isinstance(new, list):
        return old is not None and list(old) == new
    return bool(old == new)
