"""Plays one run of an experiment: its start if nobody has made that yet, the method, the last evaluations.

    python -m coevolve_lab.experiments.playing FOLDER < request.json

is what ``runner`` calls, so that runs go side by side, none can harm another, and all end with the runner.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coevolve_lab import environments, methods
from coevolve_lab.config import Config, load_config
from coevolve_lab.errors import CoEvolveError
from coevolve_lab.experiments.plan import Cell, Start, world_name
from coevolve_lab.loop import CoEvolve
from coevolve_lab.store import RunReader, copy_until

FINISHED = "experiment.json"  # in a run's folder, once it holds all that its cell asks for


def play_start(start: Start, folder: Path) -> None:
    """D_0 and its evaluation, committed as round 0; goes on with what is there."""
    with CoEvolve(start.config, folder / start.key, progress=False) as run:
        run.seed_tasks()
        _evaluate_once(run, start.config.environment.evaluation_split)
    _mark(folder / start.key, [start.config.environment.evaluation_split])


def play_cell(cell: Cell, folder: Path) -> None:
    """The run of a cell to its end; goes on after its last commit. Its start must be there (``play_start``)."""
    place = folder / cell.key
    if not place.exists():
        copy_until(folder / cell.start.key, place, 0, cell.config)
    worlds = [
        (world_name(column, config), config.environment.evaluation_split, _made(config))
        for column, config in cell.elsewhere
    ]
    with CoEvolve(cell.config, place, progress=False) as run:
        method = methods.find(cell.method)
        method.play(run)
        for split in () if method.own_evaluation else cell.splits:
            _evaluate_once(run, split)
        for label, split, world in worlds:
            _evaluate_once(run, split, world, label)
        run.snapshot()
    _mark(place, cell.asked)


def is_finished(wanted: Cell | Start, folder: Path) -> bool:
    """Whether its folder holds all that is asked of it: another experiment may have asked for less."""
    try:
        done = json.loads((folder / wanted.key / FINISHED).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return False
    if isinstance(wanted, Start):
        return True
    return set(wanted.asked) <= set(done["evaluated"])


def seconds_of(key: str, folder: Path) -> float:
    """Wall-clock of all stages that a run has on record, those of its start left out."""
    total = RunReader(folder / key).sql("select sum(seconds) as s from stage_costs where round > 0").item()
    return float(total or 0.0)


def _evaluate_once(run: CoEvolve, split: str, world: environments.Environment | None = None, label: str = "") -> None:
    """Unless the run holds that already: an interrupted run comes by twice."""
    recorded = f"{label}:{split}" if label else split
    step = run.step
    seen = run.reader.table("evaluations").select("step", "split").rows()
    if (step, recorded) not in seen:
        run.evaluate(split, world, label)


def _made(config: Config) -> environments.Environment:
    return environments.make(config.environment.name, **config.environment.arguments())


def _mark(place: Path, asked: Sequence[str]) -> None:
    """Beside what other experiments asked for."""
    before = json.loads((place / FINISHED).read_text(encoding="utf-8")) if (place / FINISHED).exists() else {}
    evaluated = list(dict.fromkeys((*before.get("evaluated", ()), *asked)))
    fresh = place / f"{FINISHED}.{os.getpid()}.tmp"
    fresh.write_text(json.dumps({"evaluated": evaluated}) + "\n", encoding="utf-8")
    os.replace(fresh, place / FINISHED)


def request(cell: Cell | Start) -> str:
    """A cell or a start as JSON for another process."""
    if isinstance(cell, Start):
        return json.dumps({"key": cell.key, "config": cell.config.model_dump(mode="json")})
    return json.dumps(
        {
            "arm": cell.arm,
            "column": cell.column,
            "environment": cell.environment,
            "seed": cell.seed,
            "method": cell.method,
            "start": json.loads(request(cell.start)),
            "config": cell.config.model_dump(mode="json"),
            "splits": list(cell.splits),
            "elsewhere": [[name, config.model_dump(mode="json")] for name, config in cell.elsewhere],
        }
    )


def _answer(text: str, folder: Path) -> None:
    tree = json.loads(text)
    if "method" not in tree:
        play_start(_start(tree), folder)
        return
    elsewhere = tuple((name, _config(config)) for name, config in tree["elsewhere"])
    given = {"start": _start(tree["start"]), "config": _config(tree["config"]), "elsewhere": elsewhere}
    play_cell(Cell(**{**tree, **given, "splits": tuple(tree["splits"])}), folder)


def _start(tree: Mapping[str, Any]) -> Start:
    return Start(tree["key"], _config(tree["config"]))


def _config(tree: Mapping[str, Any]) -> Config:
    return load_config(tree)


def _end_with(parent: int) -> None:
    """A runner that was killed must not leave runs behind that nobody waits for; what is committed stays."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    try:
        _answer(sys.stdin.read(), Path(sys.argv[1]))
    except CoEvolveError as error:
        sys.exit(f"{type(error).__name__}: {error}")
