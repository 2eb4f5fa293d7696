"""Interrupts wait for the end of what must be whole."""

from __future__ import annotations

import signal
import threading

import pytest

from coevolve_lab.interrupts import Interrupts


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def test_an_interrupt_waits_for_the_end_of_the_outermost_block() -> None:
    interrupts, done = Interrupts(), []
    before = signal.getsignal(signal.SIGINT)

    def work() -> None:
        with interrupts:
            with interrupts:
                interrupts.hold()
                interrupt()
                done.append("inner")
            interrupts.hold()
            done.append("outer")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["inner", "outer"]
    assert signal.getsignal(signal.SIGINT) is before
    with interrupts:  # and it is raised once
        interrupts.hold()


def test_before_the_hold_it_is_raised_at_once() -> None:
    interrupts, done = Interrupts(), []

    def work() -> None:
        with interrupts:
            interrupt()
            done.append("too late")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == []
    interrupts.hold()  # outside of a block nobody would end it
    with pytest.raises(KeyboardInterrupt):
        interrupt()


def test_an_error_comes_through_and_the_handler_is_put_back() -> None:
    interrupts = Interrupts()
    before = signal.getsignal(signal.SIGINT)

    def work() -> None:
        with interrupts:
            interrupts.hold()
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        work()
    assert signal.getsignal(signal.SIGINT) is before


def test_another_thread_has_nothing_to_hold() -> None:
    interrupts, raised = Interrupts(), []

    def work() -> None:
        try:
            with interrupts:
                interrupts.hold()
        except ValueError as error:
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert raised == []
