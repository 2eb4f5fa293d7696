"""A real vLLM as a managed process: served from, joined, killed, and never left behind."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from coevolve_lab.background import ManagedProcess, VllmServer
from coevolve_lab.background.vllm_supervisor import members
from coevolve_lab.config import EngineConfig
from coevolve_lab.errors import BackgroundError
from tests.vllm.conftest import READY_SECONDS, Served

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(600)]
CHILD = Path(__file__).parents[1] / "background" / "owning_child.py"
PATIENCE = 30.0  # seconds, on a busy machine


def processes(server: VllmServer) -> list[psutil.Process]:
    """The supervisor, the server's front, its engine, its worker and Python's resource tracker."""
    supervisor = ManagedProcess.read(server.folder)
    assert supervisor is not None
    found = members(supervisor.pid)
    assert len(found) >= 4
    return found


def assert_gone(those: Sequence[psutil.Process]) -> None:
    deadline = time.monotonic() + PATIENCE
    while left := [p for p in those if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]:
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


def models(url: str) -> list[str]:
    with urllib.request.urlopen(f"{url}/v1/models", timeout=PATIENCE) as reply:
        return [model["id"] for model in json.load(reply)["data"]]


def test_it_serves_on_loopback_and_is_joined(server: Served, engine_config: EngineConfig) -> None:
    before = server.status()
    assert before.state == "ready"
    assert server.base_name in models(server.url)
    every = [c for p in processes(server) for c in p.net_connections("tcp")]
    assert {c.laddr.ip for c in every if c.status == psutil.CONN_LISTEN} == {"127.0.0.1"}
    assert "Application startup complete" in server.logs(100)

    again = VllmServer(server.folder)
    how = {"lora_rank": 5, "dtype": "float32"}
    joins = [threading.Thread(target=again.start, args=(server.model, engine_config), kwargs=how) for _ in range(2)]
    for join in joins:
        join.start()
    for join in joins:
        join.join()
    assert again.status() == before
    shorter = engine_config.model_copy(update={"max_model_len": 16})
    with pytest.raises(BackgroundError, match=r"max_model_len: \d+, not 16"):
        again.start(server.model, shorter, lora_rank=8, dtype="float32")
    assert again.status() == before


def test_nothing_outlives_a_kill_and_it_starts_again(server: Served, engine_config: EngineConfig) -> None:
    """kill -9 of the front process, whose engine vLLM itself leaves running; then of the process that owns the next."""
    those = processes(server)
    front = psutil.Process(server.status().pid)
    front.kill()
    assert_gone(those)
    assert server.status().state == "dead"
    assert server.status().message == "killed by SIGKILL"

    command = [sys.executable, str(CHILD), str(server.folder), str(server.model), engine_config.model_dump_json()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "owner\n"
        url = server.wait_ready(READY_SECONDS)
        assert models(url) == [server.base_name]
        those = processes(server)
        owner.kill()
    assert_gone(those)
    assert server.status().state == "dead"
    server.stop()
    assert server.status().state == "none"
