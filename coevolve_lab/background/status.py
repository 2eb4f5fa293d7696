"""What a run in the background is doing, as one record that travels through status.json and kernel messages."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

from coevolve_lab.background.process import read_json, write_json

PROGRESS = "application/vnd.coevolve.progress+json"  # media type of the live messages; their content is ``to_json()``
State = Literal["idle", "running", "paused", "finished", "failed", "dead"]


@dataclass(frozen=True)
class RunStatus:
    """state: idle (no kernel), running, paused (a kernel with the round in its memory), finished, failed, dead.

    round: the one in progress, or the last committed one when nothing runs; rounds: where it ends; step: training
    steps done in this round; stage, done, total: what it is at, in items of that stage (total 0: not known);
    eta: seconds to the end, None until a round was timed; updated: seconds since the epoch; sitting: how often this
    kernel was set going; connection_file: for ``jupyter console --existing FILE``.
    """

    state: State
    round: int
    rounds: int
    step: int = 0
    steps_per_round: int = 0
    committed: int | None = None
    stage: str = ""
    done: int = 0
    total: int = 0
    message: str = ""
    error: str = ""
    eta: float | None = None
    pid: int | None = None
    updated: float = 0.0
    sitting: int = 0
    connection_file: str | None = None
    log: str | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        parts = [f"{self.state}: round {self.round} of {self.rounds}"]
        if self.state in ("running", "paused"):
            parts.append(f"step {self.step} of {self.steps_per_round}")
            if self.stage and self.state == "running":
                parts.append(f"{self.stage} {self.done}/{self.total}" if self.total else self.stage)
            if self.eta is not None and self.state == "running":
                parts.append(f"about {duration(self.eta)} to go")
            parts.append(f"pid {self.pid}")
        lines = [", ".join(parts)]
        return "\n".join([*lines, *(text for text in (self.message, self.error) if text)])


def read_status(folder: Path) -> RunStatus | None:
    """What the worker last said; None before its first word. Raises BackgroundError when the file is damaged."""
    content = read_json(folder / "status.json")
    known = {f.name for f in fields(RunStatus)}
    return RunStatus(**{k: v for k, v in content.items() if k in known}) if content else None


def write_status(folder: Path, status: RunStatus) -> None:
    write_json(folder / "status.json", status.to_json())


def duration(seconds: float) -> str:
    """In words: seconds, minutes or hours."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
