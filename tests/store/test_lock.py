from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from coevolve_lab.errors import RunLockedError, StoreError
from coevolve_lab.store.lock import RunLock


def owner(pid: int, started: float, host: str | None = None) -> str:
    return json.dumps({"pid": pid, "started": started, "host": host or socket.gethostname(), "token": "x"})


def test_a_dead_writers_lock_is_taken_over(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    code = f"import pathlib, coevolve_lab.store.lock as l; l.RunLock(pathlib.Path({path!r})).acquire()"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    assert json.loads((tmp_path / "lock").read_text())["pid"] != os.getpid()
    RunLock(tmp_path / "lock").acquire()
    assert json.loads((tmp_path / "lock").read_text())["pid"] == os.getpid()


def test_another_process_that_got_the_pid_of_a_dead_writer_does_not_hold_its_lock(tmp_path: Path) -> None:
    me = psutil.Process()
    (tmp_path / "lock").write_text(owner(me.pid, me.create_time() - 3600))
    RunLock(tmp_path / "lock").acquire()
    (tmp_path / "lock").write_text(owner(me.pid, me.create_time()))
    with pytest.raises(RunLockedError):
        RunLock(tmp_path / "lock").acquire()


def test_a_zombie_counts_as_dead(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    try:
        (tmp_path / "lock").write_text(owner(child.pid, psutil.Process(child.pid).create_time()))
        RunLock(tmp_path / "lock").acquire()
    finally:
        child.wait()


def test_a_writer_on_another_host_is_left_alone_and_the_remedy_is_named(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text(owner(1, 0.0, host="elsewhere"))
    with pytest.raises(RunLockedError, match=r"host elsewhere.*delete .*/lock"):
        RunLock(tmp_path / "lock").acquire()


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"pid": 1}'])
def test_a_lock_file_cut_short_belongs_to_nobody(tmp_path: Path, content: str) -> None:
    (tmp_path / "lock").write_text(content)
    RunLock(tmp_path / "lock").acquire()


def test_who_lost_the_lock_is_told(tmp_path: Path) -> None:
    lock = RunLock(tmp_path / "lock")
    lock.acquire()
    lock.check()
    (tmp_path / "lock").write_text(owner(1, 0.0))
    with pytest.raises(RunLockedError, match="taken over by pid 1"):
        lock.check()
    lock.release()
    assert json.loads((tmp_path / "lock").read_text())["pid"] == 1
    with pytest.raises(RunLockedError, match="not held"):
        lock.check()


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"cannot open the lock .*was the run moved"):
        RunLock(tmp_path / "gone" / "lock").acquire()
