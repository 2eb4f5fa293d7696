"""What every view is: a box of widgets that shows a plain table where no widgets run, and its errors as text."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import ipywidgets as W

from coevolve_lab.store import RunReader
from coevolve_lab.widgets import markup

V = TypeVar("V", bound=Callable[..., W.Widget])


class View(W.VBox):
    """A titled box. Subclasses give ``plain()``: what is shown in terminals and in exported notebooks.

    Errors in callbacks (``guarded``) appear in the view's own error line and never reach the notebook.
    """

    def __init__(self, children: Sequence[W.Widget] = ()) -> None:
        self._style = W.HTML(markup.STYLE)
        self._error = W.HTML("", layout={"display": "none"})
        super().__init__([self._style, self._error, *children])
        self.add_class("coevolve-view")

    def fill(self, children: Sequence[W.Widget]) -> None:
        """Replace what the view shows."""
        self.children = (self._style, self._error, *children)

    def plain(self) -> tuple[str, str]:
        """(text, HTML) of what the view shows now, without widgets."""
        raise NotImplementedError

    @property
    def error(self) -> str:
        """The error that is shown, as HTML; "" if there is none."""
        return str(self._error.value)

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Show what goes wrong inside instead of raising it."""
        try:
            yield
        except Exception as failure:  # whatever it is: a view must not break the notebook
            self._error.value = markup.wrap(markup.error(failure))
            self._error.layout.display = None
        else:
            if self._error.value:
                self._error.value, self._error.layout.display = "", "none"

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        bundle = dict(super()._repr_mimebundle_(**options) or {})
        try:
            bundle["text/plain"], html = self.plain()
        except Exception as failure:
            bundle["text/plain"], html = f"{type(failure).__name__}: {failure}", markup.error(failure)
        bundle["text/html"] = markup.STYLE + markup.wrap(html)
        return bundle


class Failed(View):
    """In place of a view that could not be made."""

    def __init__(self, failure: Exception) -> None:
        super().__init__()
        self._failure = failure
        with self.guarded():
            raise failure

    def plain(self) -> tuple[str, str]:
        return f"{type(self._failure).__name__}: {self._failure}", markup.error(self._failure)


def never_raises(make: V) -> V:
    """A view function that shows why it failed instead of raising: the cell below it still runs."""

    @functools.wraps(make)
    def made(*given: Any, **options: Any) -> W.Widget:
        try:
            return make(*given, **options)
        except Exception as failure:
            return Failed(failure)

    return made  # type: ignore[return-value]


def reader_of(run: Any) -> RunReader:
    """The reader of a CoEvolve, a RunReader itself, or one for a run folder. Raises StoreError for no run."""
    if isinstance(run, RunReader):
        return run
    reader = getattr(run, "reader", None)
    return reader if isinstance(reader, RunReader) else RunReader(run)


def html(body: str = "") -> W.HTML:
    """An HTML widget in the house's scope; set ``.value`` to ``markup.wrap(...)``."""
    return W.HTML(markup.wrap(body), layout={"width": "auto", "margin": "0"})


def button(label: str, tip: str, css: str, on_click: Callable[[], None]) -> W.Button:
    """A button with a CSS class of its own, which tests and style sheets select."""
    made = W.Button(description=label, tooltip=tip, layout={"width": "auto"})
    made.add_class(css)
    made.on_click(lambda _: on_click())
    return made
