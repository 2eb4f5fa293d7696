"""The side of a background run that any process holds: start it, see what it does, ask it for something.

The truth is on disk, so a notebook, a second one and the command line see and control the same run.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from queue import Empty
from typing import Any

from coevolve_lab.background.kernel import clear_leftovers, connected, launch_kernel
from coevolve_lab.background.process import ManagedProcess, read_json, tail, write_json
from coevolve_lab.background.status import RunStatus, read_status
from coevolve_lab.errors import BackgroundError, RunLockedError, StoreError
from coevolve_lab.store.lock import RunLock
from coevolve_lab.store.run_folder import RunFolder

_PREPARE = """
import sys
sys.path += [path for path in {paths!r} if path not in sys.path]
from coevolve_lab.background.worker import Worker, load
load({imports!r})
"""
_BEGIN = """
from pathlib import Path
from coevolve_lab.loop import CoEvolve
run = CoEvolve.open({run_dir!r})
worker = Worker(run, Path({folder!r}), {rounds!r})
worker.go(1)
"""


class Background:
    """The background of one run. Making one touches nothing; raises nothing for a run that never had any."""

    def __init__(self, run_dir: str | Path) -> None:
        self._run = RunFolder(run_dir)
        self.folder = self._run.path / "background"

    # ---- looking

    def status(self) -> RunStatus:
        """What the run does at this moment. Raises StoreError when the folder is no run."""
        config = self._run.read_config()["config"]
        process, last = self._process(), read_status(self.folder)
        committed = max(self._run.committed_rounds(), default=None)
        rest = RunStatus("idle", committed or 0, config["rounds"], committed=committed)
        if process is None:
            return rest
        if last is None or last.pid != process.pid:
            last = replace(rest, state="running", message="starting its kernel")
        known = replace(
            last,
            pid=process.pid,
            connection_file=str(self.folder / process.detail["connection_file"]),
            log=str(self.folder / "log.txt"),
        )
        if last.state in ("running", "paused"):
            if process.alive():
                return replace(known, message=self._pending() or last.message)
            return replace(known, state="dead", eta=None, message=_obituary(process, committed))
        gone = replace(known, pid=None, connection_file=None)
        if last.committed == committed:
            return gone
        return replace(rest, log=gone.log)  # it went on in the foreground since

    def alive(self) -> bool:
        """Whether a kernel has the run: running, paused, or on its way."""
        return self.status().state in ("running", "paused")

    def logs(self, lines: int = 40) -> str:
        """The last lines that the worker printed, over all its starts."""
        return tail(self.folder / "log.txt", lines)

    def wait(self, *states: str, timeout: float = 60.0) -> RunStatus:
        """Wait until the run is in one of these states, by default in any but running.

        Raises BackgroundError after ``timeout`` seconds, and as soon as the kernel is dead (unless asked for that).
        """
        wanted = states or ("idle", "paused", "finished", "failed", "dead")

        def reached() -> RunStatus | None:
            status = self.status()
            if status.state in wanted:
                return status
            if status.state in ("dead", "failed"):
                raise BackgroundError(f"waited for {' or '.join(wanted)}, but the run is {status}")
            return None

        return _until(reached, timeout, f"the run to be {' or '.join(wanted)}", self.status)

    def refuse_foreground(self) -> None:
        """Raise RunLockedError while the kernel of another process has the run."""
        process = self._process()
        if process is None or process.pid == os.getpid():
            return
        if (status := self.status()).state in ("running", "paused"):
            raise RunLockedError(
                f"{self._run.path} is {status.state} in its background kernel (pid {status.pid}), which alone may "
                "write to it. Looking is free. To call stages here, end it after its round with run.stop(), or at once "
                "with run.stop(discard=True), and wait for run.status() to say idle"
            )

    # ---- asking

    def start(self, rounds: int | None = None, imports: Sequence[str] = (), timeout: float = 120.0) -> RunStatus:
        """Run rounds in a kernel of their own until ``rounds`` (the config's) are committed; returns once under way.

        imports: modules, or files ending in .py, that are loaded there first, because registrations made in a notebook
        do not reach another process. Raises RunLockedError when the run is being written, PrerequisiteError without
        ipykernel, BackgroundError when the kernel does not start or an import fails.
        """
        rounds = self._run.read_config()["config"]["rounds"] if rounds is None else rounds
        paths = [str(Path(path).resolve()) for path in sys.path]
        imports = [str(Path(name).resolve()) if name.endswith(".py") else name for name in imports]
        how = {"rounds": rounds, "imports": imports, "paths": paths, "cwd": str(Path.cwd())}
        return self._start(how, timeout)

    def pause(self) -> RunStatus:
        """Ask it to stop between two stages and to keep the round in memory; ``wait("paused")`` waits for that."""
        return self._ask("pause")

    def stop(self, discard: bool = False) -> RunStatus:
        """Ask it to end after committing the round in progress; ``wait("idle")`` waits for that.

        discard: end the kernel at once; the round in progress is lost, committed ones are not.
        """
        status = self.status()
        if status.state not in ("running", "paused"):
            return status
        if discard:
            process = self._process()
            assert process is not None
            process.end()
            self._forget()
            return self.status()
        status = self._ask("stop")
        return self._wake(status) if status.state == "paused" else status

    def resume(self) -> RunStatus:
        """Take back a request to pause or stop; go on after a pause or an interrupt; or start a new kernel at the last
        commit, as the run was last started. Raises BackgroundError when it never was."""
        status = self.status()
        if status.state not in ("running", "paused"):
            before = read_json(self.folder / "start.json")
            if not before:
                raise BackgroundError(f"{self._run.path} was never in the background: use start()")
            return self._start(before, timeout=120.0)
        taken_back = [self._take_back(name) for name in ("pause", "stop")]
        if status.state == "running" and not any(taken_back):
            time.sleep(0.2)  # the worker may have taken a request just now
            status = self.status()
        return self._wake(self.status()) if status.state == "paused" else self.status()

    def interrupt(self) -> RunStatus:
        """Interrupt whatever it does, as Ctrl-C would; the kernel lives, its prompt is free, ``resume`` goes on with
        the stage that was interrupted."""
        process, status = self._process(), self.status()
        if process is not None and status.state == "running" and status.sitting:  # not while it still starts
            process.send(signal.SIGINT)
        return self.status()

    # ---- how

    def _start(self, how: Mapping[str, Any], timeout: float) -> RunStatus:
        self.folder.mkdir(mode=0o700, exist_ok=True)
        with self._starting():
            self.refuse_foreground()
            lock = RunLock(self._run.lock)
            lock.acquire()  # raises, naming the writer, when the run is being written
            lock.release()
            self._clear()
            write_json(self.folder / "start.json", how)
            process = launch_kernel(self.folder, Path(how["cwd"]))
            try:
                self._begin(process, how, timeout)
            except BaseException:
                process.end()
                self._forget()
                raise
        return self.status()

    def _begin(self, process: ManagedProcess, how: Mapping[str, Any], timeout: float) -> None:
        """Prepare the kernel, which may fail here and be told at once, and set the rounds going."""

        def answer(asked: str) -> dict[str, Any] | None:
            """The kernel's reply; raises when it is an error, or never to come."""
            if not process.alive():
                raise BackgroundError(
                    f"the kernel {process.how_it_ended()} while it started; it said:\n{self.logs(15)}"
                )
            try:
                message = client.get_shell_msg(timeout=0.1)
            except Empty:
                return None
            content = dict(message["content"])
            if message["parent_header"].get("msg_id") != asked:
                return None
            if content["status"] != "ok":
                raise BackgroundError(f"the kernel cannot begin: {content.get('ename')}: {content.get('evalue')}")
            return content

        with connected(self.folder / process.detail["connection_file"]) as client:
            prepare = client.execute(_PREPARE.format(**how), store_history=False)
            _until(lambda: answer(prepare), timeout, "the kernel to load what it needs", self.logs)
            names = {"run_dir": str(self._run.path), "folder": str(self.folder), "rounds": how["rounds"]}
            begin = client.execute(_BEGIN.format(**names), store_history=False)
            _until(lambda: read_status(self.folder) or answer(begin), timeout, "the worker's first word", self.logs)

    def _process(self) -> ManagedProcess | None:
        """The kernel of this run. A folder that was moved or copied names that of the old one, which is not ours."""
        process = ManagedProcess.read(self.folder)
        return process if process is not None and process.detail["run_dir"] == str(self._run.path) else None

    def _wake(self, status: RunStatus, timeout: float = 10.0) -> RunStatus:
        """Set a resting worker going: its kernel's prompt is free, so it is told there."""
        assert status.connection_file is not None
        with connected(Path(status.connection_file)) as client:
            client.execute(f"worker.go({status.sitting + 1})", store_history=False)

            def awake() -> RunStatus | None:
                now = self.status()
                return now if now.sitting > status.sitting or now.state != "paused" else None

            return _until(awake, timeout, "the kernel to answer: is somebody using its prompt?", self.status)

    def _ask(self, name: str) -> RunStatus:
        status = self.status()
        if status.state == "running" or (status.state == "paused" and name == "stop"):
            (self.folder / name).touch()
            return self.status()
        return status

    def _take_back(self, name: str) -> bool:
        try:
            (self.folder / name).unlink()
        except FileNotFoundError:
            return False
        return True

    def _pending(self) -> str:
        if (self.folder / "stop").exists():
            return "stopping once this round is committed"
        return "pausing after the present stage" if (self.folder / "pause").exists() else ""

    def _clear(self) -> None:
        """Make room for a new kernel: the last one is over, or about to be."""
        process = self._process()
        if process is not None and not process.wait(10.0):
            process.end()
        self._forget()

    def _forget(self) -> None:
        for name in ("process.json", "status.json", "pause", "stop"):  # in this order: no process, no death
            (self.folder / name).unlink(missing_ok=True)
        clear_leftovers(self.folder)

    @contextmanager
    def _starting(self) -> Iterator[None]:
        """Of two that start the same run at once, the second is told so."""
        with open(self.folder / "starting", "a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RunLockedError(f"another process is starting {self._run.path} in the background") from None
            except OSError as error:
                raise StoreError(f"{file.name}: this file system has no locks ({error.strerror})") from error
            yield


def _obituary(process: ManagedProcess, committed: int | None) -> str:
    kept = "nothing was committed yet" if committed is None else f"rounds up to {committed} are committed"
    return (
        f"the kernel (pid {process.pid}) is dead: {process.how_it_ended()}; {kept}. "
        "resume() starts a new kernel from there, logs() shows its last words"
    )


def _until(look: Callable[[], Any], timeout: float, what: str, seen: Callable[[], object]) -> Any:
    """The first true result of ``look``. Raises BackgroundError that says what was waited for, and what was seen."""
    deadline = time.monotonic() + timeout
    while not (result := look()):
        if time.monotonic() > deadline:
            raise BackgroundError(f"waited {timeout:.0f} s for {what}; last seen:\n{seen()}")
        time.sleep(0.03)
    return result
