"""Processes that outlive their parent: who they are, whether they live, how they ended, what they printed."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from coevolve_lab.background import ManagedProcess
from coevolve_lab.background.process import read_json, tail
from coevolve_lab.errors import BackgroundError

SLEEP = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]
DEAF = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)",
]


def launch(folder: Path, command: list[str]) -> ManagedProcess:
    process = ManagedProcess.launch(command, folder, env=os.environ, cwd=folder, detail={"port": 8000})
    while "up" not in tail(folder / "log.txt", 1):
        assert process.alive()
    return process


@pytest.mark.parametrize(("command", "end"), [(SLEEP, "SIGTERM"), (DEAF, "SIGKILL")])
def test_it_is_found_again_and_ended(tmp_path: Path, command: list[str], end: str) -> None:
    process = launch(tmp_path, command)
    found = ManagedProcess.read(tmp_path)
    assert found == process
    assert found.detail == {"port": 8000}
    assert os.getsid(found.pid) == found.pid != os.getsid(0)
    found.end(patience=0.5)
    assert not process.alive()
    assert process.how_it_ended() == f"killed by {end}"
    process.send(signal.SIGINT)  # nobody there


def test_a_zombie_and_a_reused_pid_are_dead() -> None:
    with subprocess.Popen(SLEEP, stdout=subprocess.DEVNULL) as popen:
        process = ManagedProcess(popen.pid, psutil.Process(popen.pid).create_time(), os.uname().nodename)
        assert process.alive()
        assert not dataclasses.replace(process, started=process.started - 60).alive()
        popen.kill()
        assert process.wait(10.0)
        assert psutil.Process(popen.pid).status() == psutil.STATUS_ZOMBIE  # nobody has reaped it


def test_a_process_elsewhere_is_left_alone() -> None:
    process = ManagedProcess(os.getpid(), 0.0, "another-host")
    assert process.alive()
    with pytest.raises(BackgroundError, match="runs on host another-host"):
        process.send(signal.SIGKILL)


def test_what_cannot_be_started_or_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(BackgroundError, match="cannot start no-such-program"):
        ManagedProcess.launch(["no-such-program"], tmp_path, env={}, cwd=tmp_path)
    assert ManagedProcess.read(tmp_path) is None
    (tmp_path / "process.json").write_text("{")
    with pytest.raises(BackgroundError, match=r"process\.json is damaged"):
        read_json(tmp_path / "process.json")


def test_the_tail_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    assert tail(log, 5) == ""
    log.write_bytes(b"first \xff\n" + b"x" * (1 << 20) + b"\nlast but one\nlast\n")
    assert tail(log, 2) == "last but one\nlast"
    assert "first" not in tail(log, 10)
    assert tail(log, 0) == ""
