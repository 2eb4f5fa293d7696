"""The side of a background run that is inside the kernel: drives the rounds, obeys requests, says what it is doing.

The rounds run in a cell, in the kernel's main thread, so SIGINT interrupts them as it does in a notebook, and a run
that is paused leaves the prompt free: ``jupyter console --existing FILE`` finds ``run`` and ``worker`` there.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tqdm.std import tqdm

from coevolve_lab.background.prompt import end_kernel, keep_kernel_on_exit, show
from coevolve_lab.background.status import PROGRESS, RunStatus, write_status
from coevolve_lab.background.watcher import Watched
from coevolve_lab.errors import ConfigError, ReviewPendingError

_WRITES_PER_SECOND = 10
_LOOK_FOR_DECISIONS = 1.0  # seconds
_HEARTBEAT = 2.0  # seconds between words when nothing changes


class _PausedHere(Exception):
    """Unwinds the round in progress to the prompt. The run keeps what the round has done so far."""


class Worker:
    """Drives one run up to ``rounds``. ``folder`` is RUN_DIR/background."""

    def __init__(self, run: Watched, folder: Path, rounds: int) -> None:
        self._run, self._folder = run, folder
        self._begun = False  # whether the round in progress has done a stage
        self._resting_since: float | None = None
        self._round_since, self._round_seconds = time.monotonic(), _earlier_rounds(run)
        self._mutex = threading.Lock()
        self._changed = threading.Event()
        committed = run.reader.committed_round
        self._status = RunStatus(
            "running",
            round=0 if committed is None else committed + 1,
            rounds=rounds,
            steps_per_round=run.config.training.steps_per_round,
            committed=committed,
            pid=os.getpid(),
        )
        run.watcher = self
        keep_kernel_on_exit()
        threading.Thread(target=self._beat, name="coevolve-status", daemon=True).start()

    def go(self, sitting: int) -> None:
        """Rounds until the end, a request or an error. sitting: one more than last time, else nothing happens: a
        message that arrives late must not set a run going that was paused since."""
        if sitting != self._status.sitting + 1:
            return
        if self._resting_since is not None:  # a pause is no part of what a round takes
            self._round_since += time.monotonic() - self._resting_since
            self._resting_since = None
        try:
            self._say(now=True, state="running", sitting=sitting, message="", error="")
            print(f"{_clock()} going on towards round {self._status.rounds} (pid {os.getpid()})", flush=True)
            stopped = self._rounds()
        except _PausedHere:
            self._rest("paused: the round is kept in the kernel's memory; resume() goes on, stop() ends it")
        except KeyboardInterrupt:
            self._rest(f"interrupted in {self._status.stage or 'a round'}; resume() goes on, stop() ends it")
        except BaseException as error:
            traceback.print_exc()
            self._end("failed", "resume() goes on from the last commit", _one_line(error))
        else:
            ended = f"stopped after round {self._run.reader.committed_round}; resume() goes on" if stopped else ""
            self._end("idle" if stopped else "finished", ended)

    # ---- what the run tells (watcher.Watcher)

    def stage_begins(self, stage: str, round: int, steps_done: int) -> None:
        # The first tasks are found in one go: explored anew after a pause they would be other tasks.
        if round > 0 and stage != "assemble" and self._asked("pause"):
            raise _PausedHere
        self._say(stage=stage, round=round, step=steps_done, done=0, total=0, eta=self._eta(), message="")

    def stage_ends(self, stage: str, round: int, steps_done: int, seconds: float, items: int) -> None:
        self._begun |= round > 0 and stage != "assemble"
        print(f"{_clock()} round {round} {stage}: {items} in {seconds:.1f} s", flush=True)

    def bar(self, what: str, total: int) -> Any:
        return _Bar(self, total)

    def progress(self, done: int, total: int) -> None:
        self._say(done=done, total=total, eta=self._eta())

    # ---- how it ends

    def _rounds(self) -> bool:
        """Whether it was stopped before the end."""
        run, rounds = self._run, self._status.rounds
        run.seed_tasks()
        while run.round_in_progress <= rounds:
            if not self._begun and self._asked("stop"):
                return True
            try:
                run.round()
            except ReviewPendingError as pending:
                self._wait_for_people(str(pending))
                continue
            now = time.monotonic()
            self._round_seconds = [*self._round_seconds, now - self._round_since][-3:]
            self._round_since, self._begun = now, False
            self._say(committed=run.round_in_progress - 1, step=0, round=run.round_in_progress)
            print(f"{_clock()} round {run.round_in_progress - 1} of {rounds} committed", flush=True)
        return False

    def _wait_for_people(self, message: str) -> None:
        """A moment of waiting for decisions on held drafts; nothing is begun meanwhile, so it can be stopped."""
        if self._status.message != message:
            print(f"{_clock()} {message}", flush=True)
        self._say(stage="review", done=0, total=0, message=message, eta=None)
        time.sleep(_LOOK_FOR_DECISIONS)
        if self._asked("pause"):
            raise _PausedHere
        self._round_since = time.monotonic()

    def _rest(self, message: str) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # until the kernel takes it back after this cell
        self._resting_since = time.monotonic()
        try:
            self._run.snapshot()
        except Exception as trouble:  # e.g. the disk is full: it rests all the same, and says so
            message += f" (no snapshot: {_one_line(trouble)})"
        print(f"{_clock()} {message}", flush=True)
        self._say(now=True, state="paused", message=message)

    def _end(self, state: Any, message: str, error: str = "") -> None:
        """Leave a snapshot, give up the lock, say so, and let the kernel end with this cell."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            self._run.close()
            self._run.snapshot()
        except Exception as trouble:  # e.g. the disk is full, which is why the run failed
            traceback.print_exc()
            state, error = "failed", error or _one_line(trouble)
        committed = self._status.committed
        for name in ("pause", "stop"):
            self._asked(name)
        print(f"{_clock()} {state} after round {committed} {message} {error}", flush=True)
        self._say(now=True, state=state, round=committed or 0, step=0, stage="", message=message, error=error, eta=None)
        end_kernel()

    def _asked(self, name: str) -> bool:
        """Take a request away, if it is there. Whoever removes the file has it: the one who asked may take it back."""
        try:
            (self._folder / name).unlink()
        except FileNotFoundError:
            return False
        return True

    def _eta(self) -> float | None:
        if not self._round_seconds:
            return None
        each = sum(self._round_seconds) / len(self._round_seconds)
        left = each * max(0, self._status.rounds - self._run.round_in_progress + 1)
        return max(0.0, left - min(each, time.monotonic() - self._round_since))

    # ---- saying it

    def _say(self, now: bool = False, **changes: Any) -> None:
        with self._mutex:
            self._status = replace(self._status, **changes)
            if now:
                self._publish()
        if not now:
            self._changed.set()

    def _beat(self) -> None:
        """Writes in a thread of its own: no interrupt cuts a file short, and a long stage does not fall silent."""
        while self._status.state in ("running", "paused"):
            self._changed.wait(_HEARTBEAT)
            self._changed.clear()
            with self._mutex:
                if self._status.state in ("running", "paused"):
                    self._publish()
            time.sleep(1 / _WRITES_PER_SECOND)

    def _publish(self) -> None:
        self._status = replace(self._status, updated=time.time())
        try:
            write_status(self._folder, self._status)
        except OSError as error:  # the run goes on: its own writes fail louder if the folder is gone
            print(f"{_clock()} cannot write the status: {error}", file=sys.__stderr__, flush=True)
        show({PROGRESS: self._status.to_json(), "text/plain": str(self._status)})


class _Bar(tqdm):  # type: ignore[type-arg]
    """tqdm's counting and pacing, shown in the status and not in the log."""

    def __init__(self, worker: Worker, total: int) -> None:
        self._worker = worker
        super().__init__(total=total, file=io.StringIO(), leave=False, mininterval=1 / _WRITES_PER_SECOND)

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        if msg is None:
            self._worker.progress(int(self.n), int(self.total or 0))


def load(imports: Sequence[str]) -> None:
    """Import modules by name, or run files ending in .py as modules: what registers environments and signals.

    Raises ConfigError when one is missing; what they raise themselves goes through.
    """
    for name in imports:
        if not name.endswith(".py"):
            importlib.import_module(name)
            continue
        path = Path(name)
        if not path.is_file():
            raise ConfigError(f"imports: {path.resolve()} is not a file")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


def _earlier_rounds(run: Watched) -> list[float]:
    """Seconds that the last rounds took, for the first estimate."""
    frame = run.reader.sql(
        "select sum(seconds) as s from stage_costs where round > 0 and stage <> 'assemble' "
        "group by round order by round"
    )
    return [float(value) for value in frame["s"].to_list()[-3:]]


def _clock() -> str:
    return time.strftime("%H:%M:%S")


def _one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
