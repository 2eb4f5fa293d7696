"""A process that outlives the one that started it, and that any process can look at: pid, start time, log.

The kernel of a run is one; a model server beside it is another, in a folder of its own.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

from coevolve_lab.errors import BackgroundError

_CLOCK_SLACK = 2.0  # seconds; start times are computed from the system clock, which may be corrected meanwhile
_TAIL_BYTES = 1 << 20
_children: dict[int, subprocess.Popen[bytes]] = {}  # of this process, kept so that they are reaped when they end


@dataclass(frozen=True)
class ManagedProcess:
    """A process launched into a folder. detail: what its users have to know, e.g. where it listens (JSON-like)."""

    pid: int
    started: float  # seconds since the epoch, as the system tells it
    host: str
    detail: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def launch(
        cls,
        command: Sequence[str],
        folder: Path,
        *,
        env: Mapping[str, str],
        cwd: Path,
        detail: Mapping[str, Any] | None = None,
    ) -> ManagedProcess:
        """Start it in a session of its own, so that neither Ctrl-C here nor this process' end reaches it.

        Output goes to the end of ``folder/log.txt``. Raises BackgroundError when it cannot be started.
        """
        try:
            with open(folder / "log.txt", "ab") as log:
                popen = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, env=env, cwd=cwd
                )
        except OSError as error:
            raise BackgroundError(f"cannot start {command[0]} in {cwd}: {error.strerror}") from error
        _children[popen.pid] = popen
        started = psutil.Process(popen.pid).create_time()
        made = cls(popen.pid, started, socket.gethostname(), dict(detail or {}))
        write_json(folder / "process.json", asdict(made))
        return made

    @classmethod
    def read(cls, folder: Path) -> ManagedProcess | None:
        """The process that was last launched into a folder; None when there was none."""
        content = read_json(folder / "process.json")
        return cls(**content) if content else None

    @property
    def here(self) -> bool:
        """Whether it runs, or ran, on this machine."""
        return self.host == socket.gethostname()

    def alive(self) -> bool:
        """Whether it still runs. A process on another host cannot be looked at and counts as alive."""
        if not self.here:
            return True
        if (child := _children.get(self.pid)) is not None:
            child.poll()  # reaps it
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.started) <= _CLOCK_SLACK
            return same and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    def how_it_ended(self) -> str:
        """A few words; more than "gone" only in the process that launched it."""
        code = None
        if (child := _children.get(self.pid)) is not None:
            with suppress(subprocess.TimeoutExpired):  # it is a zombie first, while its threads end
                code = child.wait(timeout=2.0)
        if code is None:
            return "gone"
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    def send(self, number: signal.Signals) -> None:
        """Send a signal. Raises BackgroundError when it is on another host; nothing happens when it is gone."""
        if not self.here:
            raise BackgroundError(f"pid {self.pid} runs on host {self.host}: do this there")
        if self.alive():
            os.kill(self.pid, number)

    def end(self, patience: float = 5.0) -> None:
        """SIGTERM, and SIGKILL after ``patience`` seconds; returns when it is gone."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            self.send(number)
            if self.wait(patience):
                return
        raise BackgroundError(f"pid {self.pid} does not end, not even by SIGKILL: it waits for a device or a disk")

    def wait(self, timeout: float) -> bool:
        """Whether it ended within ``timeout`` seconds."""
        deadline = time.monotonic() + timeout
        while self.alive():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True


def tail(path: Path, lines: int) -> str:
    """The last lines of a log, of its last MiB at most; '' when there is no log."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-lines:]) if lines > 0 else ""


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Atomic, not durable: after a power cut nothing runs that it could speak of."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.write_text(json.dumps(content, indent=1), encoding="utf-8")
    os.replace(temporary, path)


def read_json(path: Path) -> dict[str, Any]:
    """{} when there is no such file. Raises BackgroundError when it is damaged."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, TypeError) as error:
        raise BackgroundError(f"{path} is damaged ({error}); delete it when nothing runs there") from error
