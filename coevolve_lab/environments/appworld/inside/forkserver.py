"""Imports AppWorld once, then forks a process for all that is asked: ``python forkserver.py FD OWNER_PID RUNTIME``.

Importing takes seconds and most of the memory; a fork takes milliseconds and shares that memory. So every episode and
every score gets a process of its own that ends with it, nothing leaks, and a new one is always at hand. On the control
socket FD (SOCK_SEQPACKET, one JSON message a packet, with a socket for the new process beside it):

    {"spawn": "world" | "score" | "spare", "job"}  ->  {"child": pid}
    {"kill": pid}                                  ->  {"killed": bool}
    {"quit": true}                                 unanswered

A "spare" is another server like this one, on the socket that came along; it takes over if this one is killed. Nothing
outlives the owner: when the control socket closes, all children are killed, and if the owner is gone the folder RUNTIME
is removed.
"""

from __future__ import annotations

import datetime
import functools
import gc
import importlib
import json
import os
import select
import shutil
import signal
import socket
import sys
import time
import traceback
from typing import Any

import sandbox
import score
import world

_PR_SET_CHILD_SUBREAPER = 36
PACKET = 1 << 16


# What the package imports only when the first task is loaded, or the first score is made.
_LATE_IMPORTS = (
    "anyio._backends._asyncio",
    "appworld.apps.api_docs.constants",
    "fileinput",
    "gzip",
    "IPython.core.completerlib",
    "pygments.formatters.terminal",
    "pygments.lexers.diff",
    "pytest",
    "shelve",
)


def preload() -> None:
    """Do once whatever every child would have to do first. No thread may be left running: a fork would lose it."""
    import dotenv

    # The package looks for a .env file in every folder above it, where people keep keys.
    dotenv.load_dotenv = lambda *args, **kwargs: False
    from appworld import requester, task
    from appworld.apps import get_all_apps
    from appworld.apps.api_lib import (
        set_local_date_and_time,
        unset_local_date_and_time,
    )
    from appworld.common.safety_guard import ALLOWED_MODULE_NAMES
    from appworld.common.utils import import_models_module

    for app in get_all_apps():
        import_models_module(app)
    for name in (*_LATE_IMPORTS, *sorted(ALLOWED_MODULE_NAMES)):  # the latter: what agents may import
        importlib.import_module(name)
    world.public_apis()
    requester.build_main_app = functools.cache(requester.build_main_app)  # it is asked for a tuple of apps
    requester.build_main_app(tuple(sorted(get_all_apps())))
    # Only a prompt needs the documentation that comes with a task, and it is slow to load.
    task.ApiDocCollection.load = lambda *args, **kwargs: None
    # freezegun goes through all modules at the first freeze, and remembers what it found.
    unset_local_date_and_time(set_local_date_and_time(datetime.datetime(2023, 5, 18, 12)))


class Server:
    """The loop of one fork server. owner: the pid of the process at the other end of ``control``."""

    def __init__(self, control: socket.socket, runtime: str, owner: int) -> None:
        self._control, self._runtime, self._owner = control, runtime, owner
        self._children: set[int] = set()

    def run(self) -> None:
        while True:
            ready, _, _ = select.select([self._control], [], [], 1.0)
            self._reap()
            if not ready and self._owner_lives():
                continue
            packet, files, _, _ = socket.recv_fds(self._control, PACKET, 1) if ready else (b"", [], 0, None)
            request = json.loads(packet or '{"quit": true}')
            if "quit" in request:
                return self._end(asked=bool(packet))
            if "kill" in request:
                answer: dict[str, int] = {"killed": self._kill(request["kill"])}
            else:
                channel = socket.socket(fileno=files[0])
                answer = {"child": self._spawn(request["spawn"], channel, request["job"])}
                channel.close()
            self._control.send(json.dumps(answer).encode())

    def _spawn(self, kind: str, channel: socket.socket, job: dict[str, Any]) -> int:
        parent = os.getpid()
        child = os.fork()
        if child:
            if kind != "spare":  # it has a life of its own
                self._children.add(child)
            return child
        self._control.close()
        try:
            if kind == "spare":
                os.setsid()
                channel.send(json.dumps({"ready": True}).encode())
                Server(channel, self._runtime, self._owner).run()
            else:
                {"world": world.main, "score": score.main}[kind](channel, job, parent)
        except (OSError, world.frames.BrokenChannel):
            pass  # the owner has hung up
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)

    def _kill(self, child: int) -> bool:
        if child not in self._children:
            return False
        self._children.discard(child)
        os.kill(child, signal.SIGKILL)  # not reaped yet, so the pid is still its own
        os.waitpid(child, 0)
        return True

    def _reap(self) -> None:
        """Collect the dead: children, and code processes whose world process ended before them."""
        while True:
            try:
                child, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if child == 0:
                return
            self._children.discard(child)

    def _end(self, asked: bool) -> None:
        for child in list(self._children):
            self._kill(child)
        for _ in range(0 if asked else 20):  # its sockets close a moment before it is dead
            if not self._owner_lives():
                shutil.rmtree(self._runtime, ignore_errors=True)
                break
            time.sleep(0.05)
        os._exit(0)

    def _owner_lives(self) -> bool:
        try:
            with open(f"/proc/{self._owner}/stat") as stat:
                return stat.read().rpartition(")")[2].split()[0] not in "ZX"
        except OSError:
            return False


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    sandbox._libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    preload()
    gc.collect()
    gc.freeze()
    try:
        control.send(json.dumps({"ready": True, "missing": sandbox.missing()}).encode())
    except OSError:  # the owner ended meanwhile
        shutil.rmtree(sys.argv[3], ignore_errors=True)
        return
    Server(control, sys.argv[3], int(sys.argv[2])).run()


if __name__ == "__main__":
    main()
