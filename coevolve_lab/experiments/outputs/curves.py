"""Score over training, mean and standard error over seeds (figure 3a)."""

from __future__ import annotations

import polars as pl

from coevolve_lab import figures
from coevolve_lab.experiments.outputs.artefact import Artefact, markdown, shown
from coevolve_lab.experiments.results import Results


def curves(results: Results) -> list[Artefact]:
    """A figure and a table for each column; figure 3a's published values over it where the experiment compares them."""
    made = []
    for column in results.curves["column"].unique(maintain_order=True):
        own = results.curves.filter(pl.col("column") == column)
        name = "curves" if results.curves["column"].n_unique() == 1 else f"curves_{column}"
        figure = figures.learning_curves(own.with_columns(method="row"), title=f"Score over training, {column}")
        if results.plan.experiment.compares == "figure 3a":
            figures.overlay_scores(figure)
        made.append(Artefact(name, f"Score over training: {column}", _text(results, own), summary(own), figure))
    return made or [Artefact("curves", "Score over training", "No run is finished yet.")]


def summary(own: pl.DataFrame) -> pl.DataFrame:
    """Columns row, column, step, mean, stderr (over seeds, null for one), seeds; scores in [0, 1]."""
    grouped = own.group_by("row", "column", "step", maintain_order=True)
    return grouped.agg(
        pl.col("score").mean().alias("mean"),
        (pl.col("score").std(ddof=1) / pl.len().sqrt()).alias("stderr"),
        pl.len().cast(pl.Int64).alias("seeds"),
    ).sort("column", "row", "step", maintain_order=True)


def _text(results: Results, own: pl.DataFrame) -> str:
    steps = own["step"].unique().sort().to_list()
    lines = [
        [row, *(shown(own.filter(pl.col("row") == row, pl.col("step") == s)["score"].to_list(), 1, 100) for s in steps)]
        for row in results.rows
        if own.filter(pl.col("row") == row).height
    ]
    table = markdown(["step", *map(str, steps)], lines)
    return f"Percent of tasks solved after so many training steps: mean ± standard error over seeds (n).\n\n{table}\n"
