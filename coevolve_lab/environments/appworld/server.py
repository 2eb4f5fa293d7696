"""Our end of a fork server (``inside/forkserver.py``): processes with AppWorld in them, at once and one job each.

The first start imports the package, which takes seconds. From then on a process is a fork away, and so is another
fork server: one is always kept as a spare, so that even a killed server costs no import. All of them end with this
process, however it ends.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coevolve_lab.environments.appworld.inside import frames
from coevolve_lab.environments.appworld.package import INSIDE, AppWorldPackage
from coevolve_lab.errors import ConfigError, EnvironmentFailure, PrerequisiteError

WALLS = ("seccomp", "landlock")
START_SECONDS = 300.0  # importing the package takes 10 seconds of CPU time, and machines are shared
REPLY_SECONDS = 60.0
_PACKET = 1 << 16
_KEPT_VARIABLES = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TZ", "TMPDIR")  # no keys of anybody's


class ProcessGone(EnvironmentFailure):
    """A process ended before it answered; another may do better."""


@dataclass
class Process:
    """A forked process and the socket to it. Its messages are bounded in time; ``limit`` bounds their bytes."""

    pid: int
    channel: socket.socket
    server: ForkServer

    def ask(self, request: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """Send a request and wait for its answer. Raises EnvironmentFailure as ``hear`` does.

        Where no answer came, for lateness or an interrupt, nothing more can be asked.
        """
        if self.channel.fileno() < 0:
            raise EnvironmentFailure("this episode was interrupted, or gave no answer in time: open another")
        deadline = frames.now() + seconds
        try:
            frames.send(self.channel, request, deadline)
            return self.hear(deadline - frames.now())
        except (frames.Late, frames.BrokenChannel) as problem:
            self.channel.close()
            raise _failure(problem, seconds) from None
        except BaseException:  # an answer that comes later must not be taken for another request's
            self.channel.close()
            raise

    def hear(self, seconds: float) -> dict[str, Any]:
        """Wait for a message.

        Raises ProcessGone when the process ended, EnvironmentFailure when nothing comes in time or it tells of a
        failure.
        """
        try:
            answer = frames.receive(self.channel, frames.now() + seconds)
        except (frames.Late, frames.BrokenChannel) as problem:
            raise _failure(problem, seconds) from None
        if "failure" in answer:
            raise EnvironmentFailure(f"a process of AppWorld failed: {answer['failure'].strip()}")
        return dict(answer)

    def kill(self) -> None:
        """End it and whatever it started, at once; nothing happens when it is gone."""
        self.channel.close()
        self.server.kill(self.pid)


class ForkServer:
    """A fork server with its spare. ``runtime``: a folder for what processes write, removed with the server.

    allow_missing: names out of ``WALLS`` that the agent's code may go without. Raises ConfigError for another name,
    PrerequisiteError when a wall that is needed cannot be built on this machine, EnvironmentFailure when the server
    does not start.
    """

    def __init__(self, package: AppWorldPackage, *, allow_missing: Sequence[str] = ()) -> None:
        unknown = [name for name in allow_missing if name not in WALLS]
        if unknown:
            raise ConfigError(f"allow_missing holds '{unknown[0]}'; it can hold {', '.join(WALLS)}")
        if sys.platform != "linux":
            raise PrerequisiteError(f"AppWorld's workers lock agents' code in with Linux, not with {sys.platform}")
        self._package = package
        self._lock = threading.Lock()
        if "memory" in tempfile.gettempdir():
            raise PrerequisiteError(
                f"AppWorld cannot work in {tempfile.gettempdir()}: it contains 'memory'; set TMPDIR"
            )
        self.runtime = Path(tempfile.mkdtemp(prefix="coevolve-appworld-"))
        self._finalizer = weakref.finalize(self, shutil.rmtree, self.runtime, ignore_errors=True)
        self._control: socket.socket | None = None
        self._spare: socket.socket | None = None
        self._pids = [0, 0]  # of the server in use and of the spare
        self._started: subprocess.Popen[bytes] | None = None
        try:
            self.missing = self._start()
            refused = {name: why for name, why in self.missing.items() if name not in allow_missing}
            if refused:
                raise PrerequisiteError(no_walls(refused))
            self._make_spare()
        except BaseException:
            self.close()
            raise
        self.walls = [name for name in WALLS if name not in self.missing]

    def spawn(self, kind: str, job: Mapping[str, Any]) -> Process:
        """Fork a process of that kind ("world" or "score"). Raises EnvironmentFailure when no server can be had."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                pid = self._request({"spawn": kind, "job": job}, theirs)["child"]
            except BaseException:
                ours.close()
                raise
        return Process(pid, ours, self)

    def kill(self, pid: int) -> None:
        """End a child. A server that is gone took its children with it."""
        with self._lock, suppress(OSError):
            _talk(self._control, {"kill": pid})

    def pids(self) -> tuple[int, int]:
        """Process ids of the server in use and of its spare, for those who measure or break it."""
        return self._pids[0], self._pids[1]

    def close(self) -> None:
        """End all processes and remove their folder. May be called again."""
        with self._lock:
            for control in (self._control, self._spare):
                if control is not None:
                    with control, suppress(OSError):
                        control.send(json.dumps({"quit": True}).encode())
            self._control = self._spare = None
            if self._started is not None:
                with suppress(subprocess.TimeoutExpired):
                    self._started.wait(REPLY_SECONDS)
                self._started.kill()
                self._started.wait()
        self._finalizer()

    def _request(self, message: Mapping[str, Any], passed: socket.socket) -> dict[str, Any]:
        with self._lock:
            for _ in range(2):
                if self._control is None:
                    break
                try:
                    return _talk(self._control, message, passed)
                except OSError:  # killed from outside; the spare steps in
                    self._control.close()
                    if self._started is not None and self._started.pid == self._pids[0]:
                        self._started.kill()
                        self._started.wait()
                    self._control, self._spare = self._spare, None
                    self._pids = [self._pids[1], 0]
                    if self._control is None:
                        self._start()
                    with suppress(OSError):
                        self._make_spare()
        raise EnvironmentFailure("the AppWorld server was closed, or was killed again and again; open a new pool")

    def _start(self) -> dict[str, str]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        variables = dict.fromkeys(("HOME", "APPWORLD_ROOT", "APPWORLD_CACHE"), str(self.runtime))
        variables |= {"PYTHONHASHSEED": "0", **_kept_variables()}
        log = self.runtime / "log.txt"
        command = [str(self._package.python), "-s", str(INSIDE / "forkserver.py")]
        arguments = [str(theirs.fileno()), str(os.getpid()), str(self.runtime)]
        with theirs, log.open("ab") as file:
            self._started = subprocess.Popen(
                [*command, *arguments],
                cwd=self.runtime,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        ours.settimeout(START_SECONDS)
        try:
            answer = json.loads(ours.recv(_PACKET) or b"{}")
        except OSError:
            answer = {}
        except BaseException:  # an interrupt: it is of no use yet
            ours.close()
            self._started.kill()
            raise
        if "ready" not in answer:
            ours.close()
            words = " | ".join(log.read_text(errors="replace").strip().splitlines()[-3:]) or "no message"
            raise EnvironmentFailure(f"the AppWorld server did not start ({words})")
        ours.settimeout(REPLY_SECONDS)
        self._control, self._pids = ours, [self._started.pid, 0]
        return dict(answer["missing"])

    def _make_spare(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(REPLY_SECONDS)
        try:
            with theirs:
                pid = _talk(self._control, {"spawn": "spare", "job": {}}, theirs)["child"]
            ours.recv(_PACKET)
        except OSError:
            ours.close()
            raise
        self._spare, self._pids[1] = ours, pid


def missing_walls(package: AppWorldPackage) -> dict[str, str]:
    """Name and reason of the walls that this machine cannot build around agents' code; {} when it can.

    Takes a tenth of a second. Raises EnvironmentFailure when the package's Python does not run.
    """
    command = [str(package.python), "-s", str(INSIDE / "sandbox.py")]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=REPLY_SECONDS, check=True, env=_kept_variables()
        )
        return dict(json.loads(done.stdout))
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise EnvironmentFailure(
            f"AppWorld's Python does not run ({error}); delete its folder and install it again"
        ) from None


def no_walls(missing: Mapping[str, str]) -> str:
    """What it means that walls are missing, and what to do."""
    reasons = "; ".join(missing.values())
    return (
        f"agents' code cannot be locked in on this machine: {reasons}. Use a newer kernel or a container that allows "
        f"it. Only where nothing is at stake: allow_missing={list(missing)}"
    )


def _kept_variables() -> dict[str, str]:
    return {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}


def _talk(control: socket.socket | None, message: Mapping[str, Any], passed: socket.socket | None = None) -> Any:
    """Ask a server. Where that fails its socket is closed: an answer that comes late must not be taken for another."""
    if control is None:
        raise OSError("closed")
    try:
        socket.send_fds(control, [json.dumps(message).encode()], [passed.fileno()] if passed else [])
        answer = control.recv(_PACKET)
        if not answer:
            raise OSError("the server is gone")
    except BaseException:  # also an interrupt: its answer would be taken for the next request's
        control.close()
        raise
    return json.loads(answer)


def _failure(problem: Exception, seconds: float) -> EnvironmentFailure:
    if isinstance(problem, frames.Late):
        return EnvironmentFailure(f"a process of AppWorld did not answer within {seconds:.0f} s")
    return ProcessGone(f"a process of AppWorld ended: {problem}")
