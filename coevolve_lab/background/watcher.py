"""The two ends of watching a run: what a watcher is told, and what the worker needs of the run that it drives."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from coevolve_lab.config import Config
from coevolve_lab.store import RunReader


class Watcher(Protocol):
    """Set as ``run.watcher``. What ``stage_begins`` raises interrupts the round there, before the stage did anything:
    ``round()`` called again goes on with that stage, as after Ctrl-C."""

    def stage_begins(self, stage: str, round: int, steps_done: int) -> None: ...

    def stage_ends(self, stage: str, round: int, steps_done: int, seconds: float, items: int) -> None: ...

    def bar(self, what: str, total: int) -> Any:
        """A context manager with tqdm's ``update``, ``total``, ``n`` and ``set_postfix``."""


class Watched(Protocol):
    """What the worker uses of CoEvolve, which lives a floor above."""

    config: Config
    run_dir: Path
    round_in_progress: int
    watcher: Watcher | None

    @property
    def reader(self) -> RunReader: ...

    def seed_tasks(self) -> Any: ...

    def round(self) -> None: ...

    def snapshot(self) -> Path: ...

    def close(self) -> None: ...
