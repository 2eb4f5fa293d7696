"""A real Jupyter kernel of this interpreter, as a managed process, and how code is sent to it.

The kernel is launched here and not by jupyter_client's KernelManager: a manager ends its kernel with itself, picks a
kernelspec that may belong to another environment, and passes on JPY_PARENT_PID, with which the kernel would end
together with the notebook that started it.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from coevolve_lab.background.process import ManagedProcess
from coevolve_lab.errors import BackgroundError, PrerequisiteError

if TYPE_CHECKING:
    from jupyter_client.blocking.client import BlockingKernelClient

_SOCKET_PATH_BYTES = 107  # what a Unix socket's address holds on Linux, less its end


def launch_kernel(folder: Path, cwd: Path) -> ManagedProcess:
    """Start a kernel in ``folder``. Its connection file is ``folder / detail["connection_file"]``, mode 600.

    It listens on Unix sockets in the folder, or on 127.0.0.1 where the folder's path is too long for them. Raises
    PrerequisiteError without ipykernel and jupyter_client, BackgroundError when it cannot be started.
    """
    try:
        import ipykernel  # noqa: F401
        from jupyter_client.connect import write_connection_file
    except ImportError as error:
        raise PrerequisiteError(
            f"background runs need {error.name}, which {sys.executable} does not have; install it there: "
            f"{sys.executable} -m pip install 'coevolve-lab[notebook]'"
        ) from error
    name = f"k{uuid.uuid4().hex[:6]}"
    short = len(os.fsencode(folder / f"{name}-5")) < _SOCKET_PATH_BYTES
    path, _ = write_connection_file(
        str(folder / f"{name}.json"),
        key=uuid.uuid4().hex.encode(),
        transport="ipc" if short else "tcp",
        ip=str(folder / name) if short else "127.0.0.1",
        kernel_name="python3",
    )
    command = [sys.executable, "-Xfrozen_modules=off", "-m", "ipykernel_launcher", "-f", path]
    # Output goes to the log as well as to clients; no history: its database is shared by all kernels of a user.
    command += ["--IPKernelApp.quiet=False", "--HistoryManager.enabled=False"]
    env = {k: v for k, v in os.environ.items() if k not in ("JPY_PARENT_PID", "JPY_SESSION_NAME")}
    detail = {"connection_file": f"{name}.json", "run_dir": str(folder.parent)}
    return ManagedProcess.launch(command, folder, env=env, cwd=cwd, detail=detail)


@contextmanager
def connected(path: Path) -> Iterator[BlockingKernelClient]:
    """A client of the kernel with this connection file. Raises BackgroundError when the file is gone."""
    from jupyter_client.blocking.client import BlockingKernelClient

    client = BlockingKernelClient(connection_file=str(path))
    try:
        client.load_connection_file()
    except OSError as error:
        raise BackgroundError(f"cannot read {path}: {error.strerror}; was the run folder moved?") from error
    client.start_channels(stdin=False, hb=False, control=False)
    try:
        yield client
    finally:
        client.stop_channels()


def clear_leftovers(folder: Path) -> None:
    """Remove connection files and sockets; only when no kernel of this folder runs."""
    for path in folder.glob("k??????*"):
        path.unlink(missing_ok=True)
