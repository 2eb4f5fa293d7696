"""Plays the runs of a plan side by side, each in a process of its own; finished runs are not played again.

Stopped at any moment, the same call goes on: each run goes on after its last commit.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import IO

from coevolve_lab.errors import CoEvolveError
from coevolve_lab.experiments.folders import is_finished, seconds_of
from coevolve_lab.experiments.plan import REQUEST, Cell, Plan, Start, Wanted

POLL_SECONDS = 0.2
GATE = "playing.lock"  # held by the one process that plays runs into a folder
LAST_WORDS = 3  # lines of a failed run's log that are shown


class RunsFailed(CoEvolveError):
    """Some runs of an experiment failed; the others are finished, and the same call tries again."""


@dataclass
class _Job:
    """A run or a start that is being played."""

    wanted: Wanted
    process: subprocess.Popen[bytes]
    log: IO[bytes]
    began: float = field(default_factory=time.monotonic)

    @property
    def key(self) -> str:
        return self.wanted.key


def play(plan: Plan, folder: str | Path, jobs: int = 1, say: Callable[[str], None] = print) -> None:
    """Play what is missing of a plan's runs into ``folder``, ``jobs`` at a time.

    Raises RunsFailed naming the runs that failed and the last lines of their logs, after all others were played (a
    run whose start failed is not begun), or when something is missing and another process plays into the folder.
    KeyboardInterrupt ends the processes first.
    """
    folder = Path(folder)
    if all(is_finished(wanted, folder) for wanted in plan.wanted):  # whoever else plays into the folder
        return
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / GATE).open("a") as gate:
        try:
            fcntl.flock(gate, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunsFailed(f"another process plays runs into {folder}: wait for it, or give another folder") from None
        _play(plan, folder, jobs, say)


def _play(plan: Plan, folder: Path, jobs: int, say: Callable[[str], None]) -> None:
    waiting = [wanted for wanted in plan.wanted if not is_finished(wanted, folder)]
    total, failed, running, unbegun = len(waiting), dict[str, str](), list[_Job](), list[str]()
    clock = Clock(plan, folder)
    if total:
        say(f"{total} of {len(plan.wanted)} runs and starts to play, {jobs} at a time")
    try:
        while waiting or running:
            while len(running) < jobs and (wanted := _next(waiting, running, folder)) is not None:
                waiting.remove(wanted)
                running.append(_begin(wanted, folder))
            time.sleep(POLL_SECONDS)
            for job in [job for job in running if job.process.poll() is not None]:
                running.remove(job)
                job.log.close()
                if job.process.returncode != 0:
                    failed[job.key] = _last_words(folder, job.key)
                else:
                    clock.add(job.wanted, time.monotonic() - job.began)
                left = [*waiting, *(j.wanted for j in running)]
                outcome = "FAILED" if job.key in failed else "done"
                say(f"{total - len(left)}/{total} {job.key} {outcome}{clock.left(left, jobs)}")
            unbegun += [w.key for w in waiting if isinstance(w, Cell) and w.start.key in failed]
            waiting = [w for w in waiting if w.key not in unbegun]
    finally:
        for job in running:
            job.process.terminate()
        for job in running:
            job.process.wait()
            job.log.close()
    if failed:
        told = "; ".join(f"{key}: {words}" for key, words in failed.items())
        never = f". Not begun, since their start failed: {', '.join(unbegun)}" if unbegun else ""
        raise RunsFailed(
            f"{len(failed)} of {total} failed, their logs are in {folder}: {told}{never}. The same call tries again"
        )


class Clock:
    """How long runs take, as far as runs like them were played here."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self._seen: dict[str, list[float]] = {}
        for cell in plan.runs:
            if is_finished(cell, folder):
                self._seen.setdefault(_like(cell), []).append(seconds_of(cell, folder))

    def add(self, wanted: Wanted, seconds: float) -> None:
        self._seen.setdefault(_like(wanted), []).append(seconds)

    def measured(self, wanted: Wanted) -> float | None:
        """Mean seconds of its like (environment and method); None while none was played."""
        seen = self._seen.get(_like(wanted))
        return fmean(seen) if seen else None

    def _guessed(self, wanted: Wanted) -> float | None:
        """As ``measured``, else of all that was played."""
        known = self.measured(wanted)
        every = [value for values in self._seen.values() for value in values]
        return known if known is not None or not every else fmean(every)

    def left(self, wanted: list[Wanted], jobs: int) -> str:
        expected = [self._guessed(one) for one in wanted]
        if not wanted or None in expected:
            return ""
        return f", about {sum(e for e in expected if e) / min(jobs, len(wanted)) / 60:.0f} min left"


def _like(wanted: Wanted) -> str:
    return f"{wanted.environment} {wanted.method}" if isinstance(wanted, Cell) else "start"


def _next(waiting: list[Wanted], running: list[_Job], folder: Path) -> Wanted | None:
    """The first that can begin. One start at a time while there is none: it makes the warm start that others share."""
    starting = any(isinstance(job.wanted, Start) for job in running)
    for wanted in waiting:
        if isinstance(wanted, Start):
            if not starting:
                return wanted
        elif is_finished(wanted.start, folder):
            return wanted
    return None


def _begin(wanted: Wanted, folder: Path) -> _Job:
    threads = wanted.config.threads
    environment = {**os.environ, **({"OMP_NUM_THREADS": str(threads)} if threads else {})}
    log = (folder / f"{wanted.key}.log").open("wb")
    process = subprocess.Popen(
        [sys.executable, "-m", "coevolve_lab.experiments.playing", str(folder)],
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=subprocess.STDOUT,
        env=environment,
    )
    assert process.stdin is not None
    process.stdin.write(REQUEST.dump_json(wanted))
    process.stdin.close()
    return _Job(wanted, process, log)


def _last_words(folder: Path, key: str) -> str:
    lines = (folder / f"{key}.log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return " | ".join(lines[-LAST_WORDS:]) or "no message"
