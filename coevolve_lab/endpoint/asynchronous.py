"""Running a coroutine from ordinary code, also inside Jupyter, where an event loop already runs in this thread."""

from __future__ import annotations

import asyncio
import contextvars
import signal
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


def run_async(coroutine: Coroutine[Any, Any, T]) -> T:
    """The coroutine's result; what it raises is raised here.

    Ctrl-C cancels the coroutine, waits until it has cleaned up and is raised again. Inside a running event loop the
    coroutine gets a thread and a loop of its own, and the caller's loop stands still meanwhile, as a cell's code does.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    outcome: Future[T] = Future()
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = Future()

    async def body() -> T:
        task = asyncio.current_task()
        assert task is not None
        started.set_result((asyncio.get_running_loop(), task))
        return await coroutine

    def work() -> None:
        try:
            outcome.set_result(asyncio.run(body()))
        except BaseException as error:
            outcome.set_exception(error)

    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(work,), name="coevolve-endpoint", daemon=True)
    thread.start()
    try:
        with _interruptible():
            return outcome.result()
    except KeyboardInterrupt:
        if not outcome.done():
            loop, task = started.result()
            loop.call_soon_threadsafe(task.cancel)
        raise
    finally:
        thread.join()


@contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C raises here and now. Under ``asyncio.run`` it would cancel a task of the loop that stands still."""
    handler = signal.getsignal(signal.SIGINT)
    ours = threading.current_thread() is threading.main_thread() and callable(handler)
    if ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGINT, handler)
