"""Runs a model server, tells on disk how it is, and ends it when nobody needs it; what ``VllmServer`` launches.

The server ends with its owners: the processes that started or joined it. Nothing else may outlive anything: a vLLM
(0.32) whose front process is killed leaves its engine and workers running with all their memory. So there is a second
process, the sweeper: when the supervisor is gone, whatever the reason, it kills what is left of its session.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path

import psutil

from coevolve_lab.background.process import ManagedProcess, read_json, write_json

STATE, OWNERS, LOCK = "server.json", "owners.json", "starting"
OWNERLESS_SECONDS = 3.0  # after the last owner is gone; a run that is resumed at once finds its server
TERM_SECONDS = 10.0  # that a server gets to end in good order
_SWEEP_SECONDS = 30.0
_TRACKER_SECONDS = 3.0  # that Python's resource tracker gets to remove shared memory when its users are gone
_LOOK_SECONDS = 0.25
_HEALTH_SECONDS = 2.0


class Supervisor:
    """One server from start to end."""

    def __init__(self, folder: Path, port: int, command: Sequence[str]) -> None:
        self._folder = folder
        self._health = f"http://127.0.0.1:{port}/health"
        self._command = command
        self._asked_to_end = False
        # The environment may name a proxy, which is not for loopback.
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open

    def run(self) -> None:
        """Returns when the server has ended or was told to; what it left behind is the sweeper's."""
        signal.signal(signal.SIGTERM, self._end_asked)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        # Paths of this interpreter's packages, which the server's need not be able to load.
        env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
        server = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, env=env)
        self._tell("starting", server.pid)
        reason = self._watch(server)
        if server.poll() is None:
            self._tell("ending", server.pid, reason)
            server.terminate()
            with suppress(subprocess.TimeoutExpired):
                server.wait(TERM_SECONDS)
        self._tell("ended", server.pid, reason)

    def _watch(self, server: subprocess.Popen[bytes]) -> str:
        """Until the server has ended or should: why."""
        ready, last_owned = False, time.monotonic()
        while True:
            code = server.poll()
            if code is not None:
                return f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
            if self._asked_to_end:
                return "stopped"
            if has_owner(self._folder):
                last_owned = time.monotonic()
            elif time.monotonic() - last_owned > OWNERLESS_SECONDS and self._give_up(server.pid):
                return _OWNERLESS
            health = self._asked_health()
            if ready and health == 503:  # its front goes on for seconds, refusing everything
                return "its engine died"
            if not ready and health == 200:
                ready = True
                self._tell("ready", server.pid)
            time.sleep(_LOOK_SECONDS)

    def _give_up(self, pid: int) -> bool:
        """Whether nobody has joined by the last moment; whoever comes later finds the server ending."""
        try:
            with locked(self._folder, wait=False):
                if has_owner(self._folder):
                    return False
                self._tell("ending", pid, _OWNERLESS)
                return True
        except BlockingIOError:
            return False

    def _asked_health(self) -> int:
        """The HTTP status of its answer; 0 when there is none."""
        try:
            with self._open(self._health, timeout=_HEALTH_SECONDS) as reply:
                return int(reply.status)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code
        except (OSError, HTTPException):  # refused, reset, slow, or another's port
            return 0

    def _tell(self, state: str, pid: int, message: str = "") -> None:
        known = {"supervisor": os.getpid(), "state": state, "pid": pid, "message": message}
        write_json(self._folder / STATE, known)

    def _end_asked(self, *_: object) -> None:
        self._asked_to_end = True


_OWNERLESS = "ended because the processes that used it are gone"


def has_owner(folder: Path) -> bool:
    """Whether one of the processes that use the server runs."""
    return any(ManagedProcess(**owner).alive() for owner in read_json(folder / OWNERS).get("owners", []))


@contextmanager
def locked(folder: Path, wait: bool = True) -> Iterator[None]:
    """One at a time starts, joins or gives up the server of a folder. Raises BlockingIOError instead of waiting."""
    with open(folder / LOCK, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield


def sweep(session: int, folder: Path | None = None) -> None:
    """Kill what is left of a session, and return when nothing is, or after half a minute.

    folder: only processes that work there; for callers who cannot know that the session's number was not given anew.
    """
    begun = time.monotonic()
    while (left := members(session, folder)) and time.monotonic() - begun < _SWEEP_SECONDS:
        for process in left:
            with suppress(psutil.NoSuchProcess):
                if time.monotonic() - begun > _TRACKER_SECONDS or not _tracks_resources(process):
                    process.kill()
        time.sleep(0.05)


def members(session: int, folder: Path | None = None) -> list[psutil.Process]:
    """The running processes of a session; see ``sweep``."""
    found = []
    for pid in psutil.pids():
        with suppress(OSError, psutil.Error):
            if os.getsid(pid) != session:
                continue
            process = psutil.Process(pid)
            if process.status() != psutil.STATUS_ZOMBIE and (folder is None or Path(process.cwd()) == folder):
                found.append(process)
    return found


def _tracks_resources(process: psutil.Process) -> bool:
    return any("multiprocessing.resource_tracker" in word for word in process.cmdline())


def _fork_sweeper() -> None:
    """It waits on a pipe that nobody else holds: the end of the supervisor is the end of the file."""
    supervisor = os.getpid()
    end, held = os.pipe()
    if os.fork():
        os.close(end)
        return
    try:
        os.setsid()
        os.close(held)
        os.read(end, 1)
        sweep(supervisor)
    finally:
        os._exit(0)


def main(folder: str, port: str, *command: str) -> None:
    """The supervisor's process."""
    _fork_sweeper()
    Supervisor(Path(folder), int(port), command).run()
