"""What there is to reproduce and how far it is, and what a plan would cost before anything is played."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from coevolve_lab import methods
from coevolve_lab.errors import ConfigError
from coevolve_lab.estimate import GPUS, estimate
from coevolve_lab.experiments.declaration import FOLDER, Experiment, Scale, known, load, scale_called, scales
from coevolve_lab.experiments.folders import is_finished
from coevolve_lab.experiments.plan import Plan, Start, Wanted, expand_at
from coevolve_lab.experiments.runner import Clock
from coevolve_lab.paper import catalogue

GPU = GPUS["H100"]  # what the paper scale is estimated for


def listing(runs: Path, scale: str, folder: Path = FOLDER) -> pl.DataFrame:
    """One row for each table and figure of the paper, then the project's own questions.

    Columns: name (what ``reproduce`` takes), title, published (rows in ``coevolve_lab.paper``), state: "3 of 12 runs"
    of the scale in ``runs``, "finished", or why there is nothing to play. Raises ConfigError for an unknown scale.
    """
    experiments = {name: load(name, folder) for name in known(folder)}
    published = {row["name"]: row for row in catalogue().iter_rows(named=True)}
    offered = scales(folder)
    scale_called(scale, offered)
    rows = []
    for name in dict.fromkeys([*published, *experiments]):
        count = published[name]["published"] if name in published else 0
        if name in experiments:
            state = _state(experiments[name], scale, offered, runs)
            rows.append((name, experiments[name].title, count, state))
        else:
            rows.append((name, published[name]["title"], count, "settings, not results"))
    return pl.DataFrame(rows, schema=["name", "title", "published", "state"], orient="row")


def costs(plan: Plan, runs: Path) -> pl.DataFrame:
    """What ``play`` would do, in its order: columns run, state, minutes, known_from.

    minutes: null where nobody knows. known_from: "measured here" (mean of runs like it in ``runs``), "scale's own
    statement", or "first principles" for models on a GPU (``coevolve_lab.estimate``: a range, its upper end is shown).
    """
    clock = Clock(plan, runs)
    rows: list[tuple[str, str, float | None, str]] = []
    for wanted in plan.wanted:
        if is_finished(wanted, runs):
            rows.append((wanted.key, "finished", 0.0, ""))
            continue
        minutes, source = _expected(wanted, plan, clock)
        rows.append((wanted.key, "begun" if (runs / wanted.key).exists() else "to play", minutes, source))
    schema = {"run": pl.String, "state": pl.String, "minutes": pl.Float64, "known_from": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _state(experiment: Experiment, scale: str, offered: Mapping[str, Scale], runs: Path) -> str:
    try:
        plan = expand_at(experiment, scale, offered)
    except ConfigError as error:
        return str(error)
    done = sum(is_finished(cell, runs) for cell in plan.runs)
    return "finished" if done == len(plan.runs) else f"{done} of {len(plan.runs)} runs"


def _expected(wanted: Wanted, plan: Plan, clock: Clock) -> tuple[float | None, str]:
    seconds = clock.measured(wanted)
    if seconds is not None:
        return seconds / 60, "measured here"
    stated = plan.minutes.start if isinstance(wanted, Start) else plan.minutes.run
    if stated is not None:
        return stated, "scale's own statement"
    if isinstance(wanted, Start) or wanted.config.rounds == 0 or methods.find(wanted.method).own_evaluation:
        return None, ""  # an estimate is of training steps, and these make none
    try:
        rows = {row.name: row for row in estimate(wanted.config, GPU)}
    except ConfigError:
        return None, ""
    total = rows.get("all steps")
    return (total.high * 60, f"first principles, {GPU.name}") if total is not None else (None, "")
