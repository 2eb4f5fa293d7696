"""Model servers as managed processes, with a stand-in for vLLM; tests/vllm has the real one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from coevolve_lab.background import ManagedProcess, VllmServer, find_vllm
from coevolve_lab.background.process import read_json, write_json
from coevolve_lab.background.vllm_build import CPU_PACKAGES, UNWANTED
from coevolve_lab.background.vllm_supervisor import OWNERLESS_SECONDS, members
from coevolve_lab.config import EngineConfig
from coevolve_lab.errors import BackgroundError, ConfigError, PrerequisiteError
from tests.background import fake_vllm

CHILD = Path(__file__).with_name("owning_child.py")
Start = Callable[..., VllmServer]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(fake_vllm.install(tmp_path_factory.mktemp("site")))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").touch()
    return folder


@pytest.fixture
def server(tmp_path: Path) -> Iterator[VllmServer]:
    made = VllmServer(tmp_path / "server")
    yield made
    made.stop()


@pytest.fixture
def start(server: VllmServer, model: Path, python: str) -> Start:
    """start(**settings of the engine): the server, ready."""

    def started(**settings: object) -> VllmServer:
        config = EngineConfig(kind="vllm", python=python, **settings)  # type: ignore[arg-type]
        server.start(model, config, lora_rank=5, dtype="float32")
        server.wait_ready(60.0)
        return server

    return started


def processes(server: VllmServer) -> dict[str, psutil.Process]:
    supervisor = ManagedProcess.read(server.folder)
    assert supervisor is not None
    front = psutil.Process(server.status().pid)
    (engine,) = front.children()
    (sweeper,) = (p for p in psutil.Process(supervisor.pid).children() if p != front)
    assert len(members(supervisor.pid)) == 3
    return {"supervisor": psutil.Process(supervisor.pid), "front": front, "engine": engine, "sweeper": sweeper}


def assert_gone(those: Sequence[psutil.Process]) -> None:
    deadline = time.monotonic() + 30
    while left := [p for p in those if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def test_a_server_from_start_to_stop(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "HF_TOKEN", "VLLM_API_KEY"):
        monkeypatch.setenv(name, "sk-secret")
    server = start(arguments=["--enforce-eager"])
    status = server.status()
    assert (status.state, status.message) == ("ready", "")
    assert "secrets: []" in server.logs()
    assert "--max-lora-rank 8 " in server.logs()
    assert server.logs().endswith("--enforce-eager")
    assert "gpu-memory" not in server.logs()
    those = processes(server)
    server.stop()
    assert_gone(list(those.values()))
    assert server.status().state == "none"
    server.stop()


def test_whoever_starts_it_again_joins(start: Start, model: Path, python: str) -> None:
    server = start()
    before = server.status()
    others = [VllmServer(server.folder) for _ in range(4)]
    config = EngineConfig(python=python)
    threads = [
        threading.Thread(target=o.start, args=(model, config), kwargs={"lora_rank": 8, "dtype": "float32"})
        for o in others
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {other.status() for other in others} == {before}
    assert len(read_json(server.folder / "owners.json")["owners"]) == 1
    with pytest.raises(BackgroundError, match="lora_rank: 8, not 16; dtype: 'float32', not 'bfloat16'"):
        server.start(model, config, lora_rank=16, dtype="bfloat16")


def test_two_that_start_it_at_once_share_one(server: VllmServer, model: Path, python: str) -> None:
    config = EngineConfig(python=python)
    threads = [
        threading.Thread(
            target=VllmServer(server.folder).start, args=(model, config), kwargs={"lora_rank": None, "dtype": "float32"}
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    server.wait_ready(60.0)
    assert server.logs().count("command:") == 1


@pytest.mark.parametrize("victim", ["supervisor", "front", "engine"])
def test_nothing_outlives_a_kill(start: Start, victim: str) -> None:
    server = start()
    those = processes(server)
    those[victim].kill()
    assert_gone(list(those.values()))
    dead = server.status()
    assert (dead.state, dead.url, dead.pid) == ("dead", "", None)
    messages = {"supervisor": "its supervisor was killed", "front": "killed by SIGKILL", "engine": "its engine died"}
    assert dead.message == messages[victim]
    with pytest.raises(BackgroundError, match=f"is dead: {dead.message}; it said:\n"):
        server.wait_ready(60.0)
    again = start()
    assert again.status().state == "ready"
    assert again.status().pid != those["front"].pid


def test_a_lost_sweeper_is_made_up_for(start: Start) -> None:
    server = start()
    those = processes(server)
    for name in ("sweeper", "supervisor"):
        those[name].kill()
    assert_gone([those["supervisor"], those["sweeper"]])
    assert those["engine"].is_running()
    server.stop()
    assert_gone(list(those.values()))


def test_it_ends_with_its_last_owner(server: VllmServer, start: Start, model: Path, python: str) -> None:
    config = EngineConfig(kind="vllm", python=python)
    command = [sys.executable, str(CHILD), str(server.folder), str(model), config.model_dump_json()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "owner\n"
        server.wait_ready(60.0)
        those = processes(server)
        child.send_signal(signal.SIGKILL)
    assert_gone(list(those.values()))
    assert server.status().message == "ended because the processes that used it are gone"

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "owner\n"
        kept = start().status()
        child.send_signal(signal.SIGKILL)
    time.sleep(OWNERLESS_SECONDS + 2)  # it would have ended by now
    assert server.status() == kept


def test_what_it_said_when_it_died_is_told(start: Start, model: Path) -> None:
    start().stop()
    (model / "broken").touch()
    with pytest.raises(BackgroundError, match="ended with exit code 3; it said:\nValueError: the weights") as told:
        start()
    assert str(told.value).endswith("\n39\nRuntimeError: see above")
    assert len(str(told.value).splitlines()) < 20


def test_what_cannot_be_started_is_named(server: VllmServer, model: Path, python: str, tmp_path: Path) -> None:
    def refused(
        error: type[Exception], match: str, model: Path | str = model, rank: int = 8, **settings: object
    ) -> None:
        config = EngineConfig(**{"python": python, **settings})  # type: ignore[arg-type]
        with pytest.raises(error, match=match):
            server.start(model, config, lora_rank=rank, dtype="float32")
        assert server.status().state == "none"

    with pytest.raises(BackgroundError, match=r"use start\(\)"):
        server.wait_ready(1.0)
    refused(PrerequisiteError, "has no vLLM; install it with: .* -m pip install", python=None)
    refused(PrerequisiteError, "cannot be run .*no-such-python", python="/no-such-python")
    refused(ConfigError, "on the CPU: set engine.sleep to false", sleep=True)
    refused(ConfigError, "runs already", url="http://127.0.0.1:1")
    refused(ConfigError, "must not hold --port=1, --host", arguments=["--port=1", "--host", "0.0.0.0"])
    refused(ConfigError, "must not hold --max_model_len=9", arguments=["--max_model_len=9"])
    refused(ConfigError, "at most 512", rank=513)
    refused(BackgroundError, "no model folder", tmp_path / "nothing")
    refused(BackgroundError, "holds no config.json", str(tmp_path))
    (model / "model.safetensors").unlink()
    refused(BackgroundError, "holds no weights", model)


def test_a_server_elsewhere_is_left_alone(start: Start, model: Path, python: str, tmp_path: Path) -> None:
    there = {**read_json(start().folder / "process.json"), "host": "another-host"}
    other = VllmServer(tmp_path / "other")
    other.folder.mkdir()
    write_json(other.folder / "process.json", there)
    assert other.status().state == "none"  # that of the folder it was copied from
    there["detail"] = {**there["detail"], "folder": str(other.folder)}
    write_json(other.folder / "process.json", there)
    with pytest.raises(BackgroundError, match="runs on host another-host"):
        other.start(model, EngineConfig(python=python), lora_rank=8, dtype="float32")
    with pytest.raises(BackgroundError, match="runs on host another-host"):
        other.stop()


def test_a_number_that_was_given_anew_is_nobody_to_kill(server: VllmServer) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True) as stranger:
        process = ManagedProcess(stranger.pid, 0.0, os.uname().nodename, {"folder": str(server.folder), "port": 1})
        server.folder.mkdir()
        write_json(server.folder / "process.json", vars(process))
        assert server.status().state == "dead"
        server.stop()
        assert stranger.poll() is None


def test_the_kind_of_a_vllm_is_known(python: str) -> None:
    found = find_vllm(python)
    assert (found.version, found.cpu) == ("0.0", True)


def test_the_command_installs_what_is_tested() -> None:
    pins = (Path(__file__).parents[2] / "constraints-vllm.txt").read_text().split()
    assert set(CPU_PACKAGES.split()) <= set(pins)
    assert not [pin for pin in pins for name in UNWANTED.split() if pin.startswith(f"{name}==")]
