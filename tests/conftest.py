"""What holds for every test: one thread for numerics, no hub, no network beyond this machine, no window."""

from __future__ import annotations

import ipaddress
import os
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Read when torch, numpy or polars are first imported, so set before any test module is. With more threads than free
# cores torch is ten to twenty times slower, and sums come out in another order.
for _variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS"):
    os.environ[_variable] = "1"
os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")


class NetworkBlockedError(RuntimeError):
    """A test tried to reach another machine."""


def _is_local(address: Any) -> bool:
    host = address[0] if isinstance(address, tuple) else None  # a Unix socket's address is a path
    if host is None or host in ("", "localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@pytest.fixture(scope="session", autouse=True)
def _no_network() -> Iterator[None]:
    """Sockets of this process connect to loopback only. Child processes are not covered."""
    connect, connect_ex, look_up = socket.socket.connect, socket.socket.connect_ex, socket.getaddrinfo

    def refuse(address: Any) -> None:
        if not _is_local(address):
            raise NetworkBlockedError(f"tests run offline, and this one asks for {address!r}")

    def guarded_connect(self: socket.socket, address: Any) -> None:
        refuse(address)
        connect(self, address)

    def guarded_connect_ex(self: socket.socket, address: Any) -> int:
        refuse(address)
        return connect_ex(self, address)

    def guarded_look_up(host: Any, *rest: Any, **options: Any) -> Any:
        refuse((host.decode() if isinstance(host, bytes) else host,))
        return look_up(host, *rest, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded_connect)
        patch.setattr(socket.socket, "connect_ex", guarded_connect_ex)
        patch.setattr(socket, "getaddrinfo", guarded_look_up)
        yield


@pytest.fixture(autouse=True)
def _one_torch_thread() -> None:
    """Undo what an earlier test's run set; torch is not imported for this."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)


def vllm_python() -> Path:
    """The interpreter that has vLLM: in an environment apart, because it needs other versions of what we need."""
    return Path(os.environ.get("COEVOLVE_VLLM_PYTHON") or ROOT / ".venv-vllm" / "bin" / "python")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome") or os.environ.get("BROWSER_PATH")
    if not chromium:
        remedy = "apt-get install chromium, or name one in BROWSER_PATH"
        _leave_out(items, "browser", "no Chromium here", remedy, "COEVOLVE_REQUIRE_BROWSER")
    if not vllm_python().exists():
        remedy = "make test-vllm, or name an interpreter that has vLLM in COEVOLVE_VLLM_PYTHON"
        _leave_out(items, "vllm", f"no {vllm_python()}", remedy, "COEVOLVE_REQUIRE_VLLM")
    from coevolve_lab.environments.appworld import package as appworld
    from coevolve_lab.evolution import minilm

    if not appworld.is_installed():
        lack, remedy = f"no AppWorld in {appworld.home()}", appworld.INSTALL_COMMAND
        _leave_out(items, "appworld", lack, remedy, "COEVOLVE_REQUIRE_APPWORLD")
    if not minilm.is_installed():
        lack, remedy = f"no sentence-embedding model in {minilm.home()}", minilm.INSTALL_COMMAND
        _leave_out(items, "minilm", lack, remedy, "COEVOLVE_REQUIRE_MINILM")


def _leave_out(items: list[pytest.Item], marker: str, lack: str, remedy: str, required: str) -> None:
    """Skip the tests with a marker, or refuse to where the variable ``required`` is set."""
    marked = [item for item in items if item.get_closest_marker(marker)]
    if marked and os.environ.get(required):
        raise pytest.UsageError(f"{required} is set and {lack}: {remedy}; {len(marked)} tests would be skipped")
    for item in marked:
        item.add_marker(pytest.mark.skip(reason=f"{lack} ({remedy})"))
