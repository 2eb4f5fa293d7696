"""What there is to reproduce and how far it is, and what a plan would cost before anything is played."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from coevolve_lab.errors import ConfigError
from coevolve_lab.estimate import GPUS, estimate
from coevolve_lab.experiments.plan import FOLDER, Cell, Plan, Start, expand, known, load
from coevolve_lab.experiments.playing import is_finished
from coevolve_lab.experiments.runner import Clock
from coevolve_lab.paper import catalogue

GPU = GPUS["H100"]  # what the paper scale is estimated for


def listing(runs: Path, scale: str, folder: Path = FOLDER) -> pl.DataFrame:
    """One row for each table and figure of the paper, then the project's own questions.

    Columns: name (what ``reproduce`` takes), title, published (rows in ``coevolve_lab.paper``), state: "3 of 12 runs"
    of the scale in ``runs``, "finished", or why there is nothing to play.
    """
    published = {row["name"]: row for row in catalogue().iter_rows(named=True)}
    names = list(dict.fromkeys([*published, *known(folder)]))
    rows = []
    for name in names:
        there = name in known(folder)
        title = load(name, folder).title if there else published[name]["title"]
        count = published[name]["published"] if name in published else 0
        rows.append((name, title, count, _state(name, scale, runs, folder) if there else "settings, not results"))
    return pl.DataFrame(rows, schema=["name", "title", "published", "state"], orient="row")


def costs(plan: Plan, runs: Path) -> pl.DataFrame:
    """What ``play`` would do, in its order: columns run, state, minutes, known_from.

    minutes: null where nobody knows. known_from: "measured here" (mean of runs like it in ``runs``), "scale's own
    statement", or "first principles" for models on a GPU (``coevolve_lab.estimate``: a range, its upper end is shown).
    """
    clock = Clock(plan, runs)
    rows: list[tuple[str, str, float | None, str]] = []
    everything: list[Cell | Start] = [*plan.starts, *plan.runs]
    for wanted in everything:
        if is_finished(wanted, runs):
            rows.append((wanted.key, "finished", 0.0, ""))
            continue
        minutes, source = _expected(wanted, plan, clock)
        rows.append((wanted.key, "begun" if (runs / wanted.key).exists() else "to play", minutes, source))
    schema = {"run": pl.String, "state": pl.String, "minutes": pl.Float64, "known_from": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _state(name: str, scale: str, runs: Path, folder: Path) -> str:
    try:
        plan = expand(load(name, folder), scale, folder)
    except ConfigError as error:
        return str(error)
    done = sum(is_finished(cell, runs) for cell in plan.runs)
    return "finished" if done == len(plan.runs) else f"{done} of {len(plan.runs)} runs"


def _expected(wanted: Cell | Start, plan: Plan, clock: Clock) -> tuple[float | None, str]:
    seconds = clock.expected(wanted)
    if seconds is not None:
        return seconds / 60, "measured here"
    stated = plan.minutes.start if isinstance(wanted, Start) else plan.minutes.run
    if stated is not None:
        return stated, "scale's own statement"
    if isinstance(wanted, Start) or wanted.config.rounds == 0:
        return None, ""
    try:
        rows = {row.name: row for row in estimate(wanted.config, GPU)}
    except ConfigError:
        return None, ""
    total = rows.get("all steps")
    return (total.high * 60, f"first principles, {GPU.name}") if total is not None else (None, "")
