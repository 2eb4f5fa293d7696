"""Plays one run of an experiment: its start if nobody has made that yet, the method, the last evaluations.

    python -m coevolve_lab.experiments.playing FOLDER < request.json

is what ``runner`` calls, so that runs go side by side, none can harm another, and all end with the runner.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

from coevolve_lab import environments, methods
from coevolve_lab.config import Config
from coevolve_lab.errors import CoEvolveError, ConfigError
from coevolve_lab.experiments.folders import mark_finished
from coevolve_lab.experiments.plan import REQUEST, Cell, Start, world_name
from coevolve_lab.loop import CoEvolve
from coevolve_lab.store import copy_until


def play_start(start: Start, folder: Path) -> None:
    """D_0 and its evaluation, committed as round 0; goes on with what is there."""
    with CoEvolve(start.config, folder / start.key, progress=False) as run:
        run.seed_tasks()
        _evaluate_once(run, start.config.environment.evaluation_split)
    mark_finished(start, folder)


def play_cell(cell: Cell, folder: Path) -> None:
    """The run of a cell to its end; goes on after its last commit. Its start must be there (``play_start``)."""
    _check_splits(cell)
    place = folder / cell.key
    if not place.exists():
        copy_until(folder / cell.start.key, place, 0, cell.config)
    with CoEvolve(cell.config, place, progress=False) as run:
        method = methods.find(cell.method)
        method.rounds(run)
        for split in () if method.own_evaluation else cell.splits:
            _evaluate_once(run, split)
        for column, config in cell.elsewhere:
            _evaluate_once(run, config.environment.evaluation_split, config, world_name(column, config))
        run.snapshot()
    mark_finished(cell, folder)


def _check_splits(cell: Cell) -> None:
    """A world that is not installed, or has no such split, is better missed now than after the run."""
    asked = [(cell.config, cell.splits)]
    asked += [(config, (config.environment.evaluation_split,)) for _, config in cell.elsewhere]
    for config, splits in asked:
        there = environments.make(config.environment.name, **config.environment.arguments()).splits()
        if unknown := [split for split in splits if split not in there]:
            name = config.environment.name
            raise ConfigError(f"environment '{name}' has no split '{unknown[0]}'; it has {', '.join(there)}")


def _evaluate_once(run: CoEvolve, split: str, elsewhere: Config | None = None, label: str = "") -> None:
    """Unless the run holds that already: an interrupted run comes by twice."""
    recorded = f"{label}:{split}" if label else split
    step = run.step
    seen = run.reader.table("evaluations").select("step", "split").rows()
    if (step, recorded) not in seen:
        run.evaluate(split, elsewhere, label)


def _end_with(parent: int) -> None:
    """A runner that was killed must not leave runs behind that nobody waits for; what is committed stays."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    wanted, runs = REQUEST.validate_json(sys.stdin.read()), Path(sys.argv[1])
    try:
        if isinstance(wanted, Start):
            play_start(wanted, runs)
        else:
            play_cell(wanted, runs)
    except CoEvolveError as error:
        sys.exit(f"{type(error).__name__}: {error}")
