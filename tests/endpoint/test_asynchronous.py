"""Coroutines from ordinary code, whatever loops already run."""

from __future__ import annotations

import asyncio
import contextvars
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from coevolve_lab.endpoint import Endpoint, run_async
from tests.endpoint.conftest import ask
from tests.fake_endpoint import FakeEndpoint, says

NAME: contextvars.ContextVar[str] = contextvars.ContextVar("name")
ROOT = Path(__file__).parents[2]


async def double(value: int) -> int:
    await asyncio.sleep(0)
    return 2 * value


async def fail() -> None:
    raise KeyError("mine")


def test_a_result_and_an_error_come_back() -> None:
    assert run_async(double(4)) == 8
    with pytest.raises(KeyError, match="mine"):
        run_async(fail())


def test_it_works_inside_a_running_loop() -> None:
    async def cell() -> int:
        with pytest.raises(KeyError, match="mine"):
            run_async(fail())
        NAME.set("cell")
        return run_async(double(4)) + run_async(named())

    async def named() -> int:
        assert threading.current_thread() is not threading.main_thread()
        return len(NAME.get())

    assert asyncio.run(cell()) == 12


def test_one_endpoint_serves_many_loops(make: Callable[..., Endpoint]) -> None:
    """Clients are closed with their loops: an unclosed one fails the test as a lost error."""
    with FakeEndpoint(lambda request, number: says("hello")) as fake:
        endpoint = make(fake)

        async def cell() -> list[str]:
            inner = [ask(endpoint, f"inner{i}").text for i in range(2)]
            reply = await endpoint.ask("explore", "outer", [{"role": "user", "content": "go"}])
            return [*inner, reply.text]

        assert asyncio.run(cell()) == ["hello"] * 3
        assert ask(endpoint, "later").text == "hello"
        assert not endpoint._wires


INTERRUPTED = """
import asyncio, sys
from coevolve_lab.endpoint import run_async

async def work():
    print("working", flush=True)
    try:
        await asyncio.sleep(60)
    finally:
        print("cleaned up", flush=True)

async def cell():
    run_async(work())

try:
    asyncio.run(cell()) if sys.argv[1] == "inside" else run_async(work())
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("where", ["inside", "outside"])
def test_ctrl_c_cancels_the_coroutine(where: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED, where]
    child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == "working\n"
        time.sleep(0.2)  # until the main thread waits
        os.kill(child.pid, signal.SIGINT)
        assert child.communicate(timeout=30)[0] == "cleaned up\ninterrupted\n"
    finally:
        child.kill()
        child.wait(10)
