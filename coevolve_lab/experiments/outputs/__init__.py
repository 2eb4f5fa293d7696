"""What an experiment shows of its runs: one function for each name that ``outputs`` of its file may hold.

Every function takes ``Results`` and gives ``Artefact``s: a table with what a reader must know of it, the same numbers
in full, a figure. Published values stand in columns or marks of their own, labelled so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from coevolve_lab.experiments.outputs.artefact import Artefact
from coevolve_lab.experiments.outputs.chosen import chosen
from coevolve_lab.experiments.outputs.costs import costs
from coevolve_lab.experiments.outputs.crossed import cross
from coevolve_lab.experiments.outputs.curves import curves
from coevolve_lab.experiments.outputs.gains import gains
from coevolve_lab.experiments.outputs.queries import diversity, similarity, task_map
from coevolve_lab.experiments.outputs.records import pass_rate, shares, signals, turns
from coevolve_lab.experiments.outputs.scores import scores
from coevolve_lab.experiments.outputs.tools import tools
from coevolve_lab.experiments.results import Results

Output = Callable[[Results], list[Artefact]]

OUTPUTS: Mapping[str, Output] = {
    "scores": scores,
    "gains": gains,
    "curves": curves,
    "tools": tools,
    "chosen": chosen,
    "cross": cross,
    "costs": costs,
    "diversity": diversity,
    "map": task_map,
    "similarity": similarity,
    "signals": signals,
    "shares": shares,
    "pass_rate": pass_rate,
    "turns": turns,
}

__all__ = ["OUTPUTS", "Artefact", "Output"]
