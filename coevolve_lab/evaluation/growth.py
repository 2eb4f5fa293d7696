"""How varied D_t is and how close to the evaluation, round by round (table 15), on one embedding of all queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from coevolve_lab.evaluation.diversity import distances, max_similarity, relative_energy, self_redundancy
from coevolve_lab.evaluation.embedding import MINILM, embed
from coevolve_lab.records import Task

NEIGHBOURS = 5  # k of SR@k, which the paper does not give
SCHEMA = {
    "round": pl.Int64,
    "tasks": pl.Int64,
    "new": pl.Int64,
    "sr_new": pl.Float64,
    "sr_all": pl.Float64,
    "ed_rel_v_new": pl.Float64,
    "ed_rel_u_new": pl.Float64,
    "ed_rel_v_all": pl.Float64,
    "ed_rel_u_all": pl.Float64,
    "max_similarity_new": pl.Float64,
}


@dataclass(frozen=True)
class Embedded:
    """The queries of D_t and of the evaluation tasks as vectors of one model: [tasks, d], [evaluation tasks, d]."""

    tasks: tuple[Task, ...]
    vectors: NDArray[np.float64]
    targets: NDArray[np.float64]
    model: str


def embedded(
    tasks: Sequence[Task],
    targets: Sequence[Task],
    model: str = MINILM,
    known: dict[str, NDArray[np.float64]] | None = None,
) -> Embedded:
    """Embed all at once, so that maps, similarities and diversities are of the same vectors. known: see ``embed``."""
    texts = [query(task) for task in (*tasks, *targets)]
    vectors = embed(texts, model, known)
    return Embedded(tuple(tasks), vectors[: len(tasks)], vectors[len(tasks) :], model)


def query(task: Task) -> str:
    """What is embedded of a task: all that the user says."""
    return " ".join(task.turns)


def growth(found: Embedded, k: int = NEIGHBOURS) -> pl.DataFrame:
    """One row for each round in which tasks entered: columns of ``SCHEMA``, values as in equations 2-4 (not percent).

    new: the tasks that entered in that round, which is what the paper seems to measure; all: D_t after it. sr: mean
    cosine similarity to the k nearest others. ed_rel: distance from the evaluation tasks X, by both estimators ("v"
    cannot be negative, "u" is without bias and can). max_similarity_new: mean over new tasks of the largest similarity
    to an evaluation task. Null where there are too few tasks (two for sr and u) or targets.
    """
    entered = np.array([task.round for task in found.tasks], dtype=int)
    within, among_targets = distances(found.vectors, found.vectors), distances(found.targets, found.targets)
    between = distances(found.targets, found.vectors)

    def distance(chosen: NDArray[np.bool_], estimator: str) -> float | None:
        if len(among_targets) < 2 or chosen.sum() < (2 if estimator == "u" else 1):
            return None
        return relative_energy(among_targets, within[np.ix_(chosen, chosen)], between[:, chosen], estimator)

    rows = []
    for round in sorted(set(entered.tolist())):
        new, held = found.vectors[entered == round], found.vectors[entered <= round]
        rows.append(
            {
                "round": round,
                "tasks": len(held),
                "new": len(new),
                "sr_new": self_redundancy(new, k) if len(new) > 1 else None,
                "sr_all": self_redundancy(held, k) if len(held) > 1 else None,
                "ed_rel_v_new": distance(entered == round, "v"),
                "ed_rel_u_new": distance(entered == round, "u"),
                "ed_rel_v_all": distance(entered <= round, "v"),
                "ed_rel_u_all": distance(entered <= round, "u"),
                "max_similarity_new": float(max_similarity(new, found.targets).mean()) if len(found.targets) else None,
            }
        )
    return pl.DataFrame(rows, schema=SCHEMA)
