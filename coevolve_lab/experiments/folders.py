"""How far a run is, as its folder says; nothing here plays, so that looking on loads no model library."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from coevolve_lab.experiments.plan import Start, Wanted
from coevolve_lab.store import RunReader

FINISHED = "experiment.json"  # in a run's folder, once it holds all that its cell asks for


def is_finished(wanted: Wanted, folder: Path) -> bool:
    """Whether its folder holds all that is asked of it: another experiment may have asked for less."""
    evaluated = _evaluated(folder / wanted.key)
    if evaluated is None:
        return False
    return isinstance(wanted, Start) or set(wanted.asked) <= set(evaluated)


def mark_finished(wanted: Wanted, folder: Path) -> None:
    """Its folder holds all that is asked of it, beside what other experiments asked for."""
    place = folder / wanted.key
    asked = (wanted.config.environment.evaluation_split,) if isinstance(wanted, Start) else wanted.asked
    evaluated = list(dict.fromkeys((*(_evaluated(place) or ()), *asked)))
    fresh = place / f"{FINISHED}.{os.getpid()}.tmp"
    fresh.write_text(json.dumps({"evaluated": evaluated}) + "\n", encoding="utf-8")
    os.replace(fresh, place / FINISHED)


def seconds_of(wanted: Wanted, folder: Path) -> float:
    """Wall-clock of all stages that a run has on record, those of its start left out."""
    total = RunReader(folder / wanted.key).sql("select sum(seconds) as s from stage_costs where round > 0").item()
    return float(total or 0.0)


def _evaluated(place: Path) -> Sequence[str] | None:
    """Names of the evaluations that a finished run holds; None: it is not finished."""
    try:
        found: list[str] = json.loads((place / FINISHED).read_text(encoding="utf-8"))["evaluated"]
    except FileNotFoundError:
        return None
    return found
