"""Ctrl-C that waits while something must be done whole or not at all."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any, Self


class Interrupts:
    """Holds an interrupt back, from ``hold`` to the end of the outermost ``with`` block, where it is then raised.

    >>> with interrupts:
    ...     gradient = long_work()       # interrupted as ever
    ...     interrupts.hold()
    ...     apply(gradient), write_down()  # both or neither

    Outside of a block, and in any thread but the main one, where no interrupt arrives, ``hold`` does nothing.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._before: Any = None  # the handler in force before ``hold``
        self._asked = False

    def hold(self) -> None:
        """From here on an interrupt waits."""
        main = threading.current_thread() is threading.main_thread()
        if self._depth and self._before is None and main:
            self._before = signal.getsignal(signal.SIGINT) or signal.default_int_handler
            signal.signal(signal.SIGINT, self._wait)

    def __enter__(self) -> Self:
        self._depth += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth or self._before is None:
            return
        before, self._before = self._before, None
        asked, self._asked = self._asked, False
        signal.signal(signal.SIGINT, before)
        if asked:
            signal.raise_signal(signal.SIGINT)

    def _wait(self, number: int, frame: FrameType | None) -> None:
        self._asked = True
