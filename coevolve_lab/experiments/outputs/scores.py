"""Scores by method and column: mean and standard error over seeds, beside the paper's where it has the table."""

from __future__ import annotations

from statistics import fmean

import polars as pl

from coevolve_lab import figures, paper
from coevolve_lab.experiments.outputs.artefact import Artefact, markdown, published_table, shown
from coevolve_lab.experiments.results import Results

_PLAIN = "Percent of tasks solved: mean ± standard error over seeds (n)."


def scores(results: Results) -> list[Artefact]:
    """The reported split, then each other split that the runs were evaluated on, which was for choosing."""
    made = [_reported(results)]
    others = results.scores.filter(~pl.col("test"))["split"].unique(maintain_order=True)
    for split in others:
        own = results.scores.filter(pl.col("split") == split, ~pl.col("test"))
        made.append(
            Artefact(f"scores_{split}", f"Scores on the split “{split}”", _plain_text(results, own), _summary(own))
        )
    return made


def _reported(results: Results) -> Artefact:
    own = results.scores.filter(pl.col("test"))
    long = own.select(pl.col("row").alias("method"), pl.col("column").alias("environment"), "seed", "score")
    number = published_table(results.plan.experiment.compares)
    if number is None:
        figure = figures.method_scores(long)
        text = f"{_plain_text(results, own)}\n\n{_sizes(results)}"
        return Artefact("scores", "Scores", text, _summary(own), figure)
    compared = paper.side_by_side(long, number)
    columns = long["environment"].unique().to_list()
    here = compared.filter(pl.col("environment").is_in(columns))
    left_out = compared.filter(~pl.col("environment").is_in(columns))["environment"].n_unique()
    text = f"Percent.\n\n{paper.markdown(here)}"
    if left_out:
        text += f"\nThe CSV file also has the {left_out} published columns of other benchmarks, without own scores.\n"
    text += f"\n{_sizes(results)}\n"
    published = here.select("method", "environment", "published").drop_nulls()
    return Artefact("scores", "Scores", text, compared, figures.method_scores(long, published))


def _sizes(results: Results) -> str:
    """How many tasks the policies were trained on: methods that differ in that, too, are not compared in one thing."""
    sizes: dict[str, list[int]] = {}
    for one in results.reported:
        place = one.row if len(results.columns) == 1 else f"{one.row}, {one.column}"
        sizes.setdefault(place, []).append(results.reader(one.cell).sql("select count(*) as n from tasks").item())
    listed = "; ".join(f"{place}: {fmean(found):.0f}" for place, found in sizes.items())
    return f"Tasks in D_t at the end, mean over seeds: {listed}."


def _summary(own: pl.DataFrame) -> pl.DataFrame:
    """Columns row, column, split, before, mean, stderr (over seeds), seeds, tasks; scores in [0, 1]."""
    return own.group_by("row", "column", "split", maintain_order=True).agg(
        pl.col("before").mean(),
        pl.col("score").mean().alias("mean"),
        (pl.col("score").std(ddof=1) / pl.len().sqrt()).alias("stderr"),
        pl.len().cast(pl.Int64).alias("seeds"),
        pl.col("tasks").first(),
    )


def _plain_text(results: Results, own: pl.DataFrame) -> str:
    """A row a method; for each column of the table the score before training, where it was measured, and at the end."""
    columns = own["column"].unique(maintain_order=True).to_list()
    was_played = {c: own.filter(pl.col("column") == c)["before"].null_count() < len(own) for c in columns}
    head = [""]
    for column in columns:
        head += [f"{column}: before", f"{column}: after"] if was_played[column] else [column]
    lines = []
    for row in results.rows:
        line = [row]
        for column in columns:
            there = own.filter(pl.col("row") == row, pl.col("column") == column)
            if was_played[column]:
                line.append(shown(there["before"].drop_nulls().to_list(), 1, 100, count=False))
            line.append(shown(there["score"].to_list(), 1, 100))
        lines.append(line)
    return f"{_PLAIN}\n\n{markdown(head, lines)}"
