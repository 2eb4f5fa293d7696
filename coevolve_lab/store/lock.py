"""One writer per run: a lock file with the writer's pid and the start time of its process (design rule 8).

The kernel's file lock is held only while the file is read and rewritten, never for the life of the writer: child
processes would inherit it and keep a dead writer's run locked.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import psutil

from coevolve_lab.errors import RunLockedError, StoreError

# A process' start time is computed from the system clock, which may be corrected between two looks at it.
_CLOCK_SLACK = 2.0  # seconds


class RunLock:
    """Held from ``acquire`` to ``release``; a holder that died is replaced without asking."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mine: dict[str, Any] = {}

    def acquire(self) -> None:
        """Take the lock. Raises RunLockedError naming the living writer, StoreError when the file cannot be used."""
        with self._opened() as file:
            owner = _read(file)
            if owner and _alive(owner):
                raise RunLockedError(_explain(self._path, owner))
            self._mine = {
                "pid": os.getpid(),
                "started": psutil.Process().create_time(),
                "host": socket.gethostname(),
                "token": uuid.uuid4().hex,
            }
            _write(file, json.dumps(self._mine))

    def check(self) -> None:
        """Raise RunLockedError unless this object, in the process that acquired it, still holds the lock."""
        if not self._mine or self._mine["pid"] != os.getpid():
            raise RunLockedError(f"{self._path} is not held by this object: closed, or of another process")
        with self._opened() as file:
            owner = _read(file)
        if owner.get("token") != self._mine["token"]:
            raise RunLockedError(f"{self._path} was taken over by pid {owner.get('pid')}; open the run again to write")

    def release(self) -> None:
        """Give the lock up; nothing happens when it is not held, or held by someone else by now."""
        if self._mine and self._mine["pid"] == os.getpid() and self._path.exists():
            with self._opened() as file:
                if _read(file).get("token") == self._mine["token"]:
                    _write(file, "")
        self._mine = {}

    @contextmanager
    def _opened(self) -> Iterator[IO[str]]:
        try:
            file = open(self._path, "a+", encoding="utf-8")  # noqa: SIM115
        except OSError as error:
            raise StoreError(f"cannot open the lock {self._path}: {error.strerror}; was the run moved?") from error
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
            except OSError as error:
                raise StoreError(f"{self._path}: this file system has no locks ({error.strerror})") from error
            yield file


def _read(file: IO[str]) -> dict[str, Any]:
    """The owner written in the file; nothing when it is empty or was cut short by a kill."""
    file.seek(0)
    try:
        owner = json.loads(file.read())
        return owner if {"pid", "started", "host", "token"} <= set(owner) else {}
    except (ValueError, TypeError):
        return {}


def _write(file: IO[str], text: str) -> None:
    file.seek(0)
    file.truncate()
    file.write(text)
    file.flush()


def _alive(owner: dict[str, Any]) -> bool:
    """Whether the owner still runs. An owner on another host cannot be looked at and counts as alive."""
    if owner["host"] != socket.gethostname():
        return True
    try:
        process = psutil.Process(owner["pid"])
        same = abs(process.create_time() - owner["started"]) <= _CLOCK_SLACK
        return same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _explain(path: Path, owner: dict[str, Any]) -> str:
    if owner["host"] != socket.gethostname():
        return (
            f"{path.parent} is being written by pid {owner['pid']} on host {owner['host']}, which cannot be checked "
            f"from here; if that writer is certainly gone, delete {path}"
        )
    if owner["pid"] == os.getpid():
        return f"this process (pid {owner['pid']}) already writes to {path.parent}: use that object, or close it"
    return (
        f"{path.parent} is being written by pid {owner['pid']}; stop that process, or open the run for reading "
        "(RunReader), which never waits for a writer"
    )
