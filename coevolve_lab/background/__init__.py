"""A run in a Jupyter kernel of its own: started and controlled from any process, the truth on disk; and, if it wants
one, a model server beside it (vllm_server.py).

All of the run's own lies in ``RUN_DIR/background``:

    process.json     which process it is (process.py)
    log.txt          what it printed
    start.json       what it was started with, so that ``resume`` can start it again
    status.json      what it is doing, written by the worker at every stage, at most ten times a second
    pause, stop      requests: empty files that the worker takes away when it acts on them
    k*.json, k*-1..5 the kernel's connection file and sockets

The names below load on first use: the small process that watches a model server imports this package too.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coevolve_lab.background.handle import Background
    from coevolve_lab.background.process import ManagedProcess
    from coevolve_lab.background.status import PROGRESS, RunStatus
    from coevolve_lab.background.vllm_build import VllmBuild, find_vllm
    from coevolve_lab.background.vllm_server import ServerStatus, VllmServer

__all__ = [
    "PROGRESS",
    "Background",
    "ManagedProcess",
    "RunStatus",
    "ServerStatus",
    "VllmBuild",
    "VllmServer",
    "find_vllm",
]

_HOMES = {
    **{"Background": "handle", "ManagedProcess": "process", "PROGRESS": "status", "RunStatus": "status"},
    **{
        "VllmBuild": "vllm_build",
        "find_vllm": "vllm_build",
        "ServerStatus": "vllm_server",
        "VllmServer": "vllm_server",
    },
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
