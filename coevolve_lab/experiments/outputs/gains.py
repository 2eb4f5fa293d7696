"""Differences between methods, paired by seed: the number that a comparison is about, with what chance can do."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import polars as pl

from coevolve_lab import figures
from coevolve_lab.evaluation.paired_seeds import LEVEL, Gain, gain
from coevolve_lab.experiments.outputs.artefact import Artefact, markdown, shown_p, signed
from coevolve_lab.experiments.results import Results

FEW = 5  # methods of which every two are compared; of more, each with the first only
SCHEMA = {
    "column": pl.String,
    "first": pl.String,
    "other": pl.String,
    "gain": pl.Float64,
    "stderr": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "p_value": pl.Float64,
    "seeds": pl.Int64,
    "tasks": pl.Int64,
}


def gains(results: Results) -> list[Artefact]:
    """Each method against the first, and against each other where they are few, on each column's reported split."""
    frame = compared(results, pairs(results.rows))
    if frame.is_empty():
        return [Artefact("gains", "Differences, paired by seed", "No two methods have a finished run of one seed yet.")]
    return [Artefact("gains", "Differences, paired by seed", text(frame), frame, figures.paired_gains(frame))]


def pairs(rows: Sequence[str]) -> list[tuple[str, str]]:
    return list(combinations(rows, 2)) if len(rows) <= FEW else [(rows[0], row) for row in rows[1:]]


def compared(results: Results, wanted: Sequence[tuple[str, str]], split: str | None = None) -> pl.DataFrame:
    """One row for each column and pair of rows with a common seed: columns of ``SCHEMA``, differences in [-1, 1]."""
    rows = []
    for column in results.columns:
        for first, other in wanted:
            found = of_pair(results, column, first, other, split)
            if found is not None:
                numbers = {
                    name: getattr(found, name) for name in ("stderr", "low", "high", "p_value", "seeds", "tasks")
                }
                rows.append({"column": column, "first": first, "other": other, "gain": found.mean, **numbers})
    return pl.DataFrame(rows, schema=SCHEMA)


def of_pair(results: Results, column: str, first: str, other: str, split: str | None = None) -> Gain | None:
    """None without a seed that both have."""
    a, b = (
        {seed: one.last.outcomes for seed, one in results.by_seed(row, column, split).items()} for row in (first, other)
    )
    return gain(a, b) if a.keys() & b.keys() else None


def text(frame: pl.DataFrame) -> str:
    """The table in percentage points, with what the interval and the p-value are about."""
    head = ["other - first", "column", "points", "standard error", f"{LEVEL:.0%} interval", "p", "seeds"]
    lines = [
        [
            f"{row['other']} - {row['first']}",
            row["column"],
            signed(100 * row["gain"]),
            "" if row["stderr"] is None else f"{100 * row['stderr']:.2f}",
            f"{signed(100 * row['low'])} to {signed(100 * row['high'])}",
            shown_p(row["p_value"]),
            str(row["seeds"]),
        ]
        for row in frame.iter_rows(named=True)
    ]
    most = int(frame["seeds"].max())  # type: ignore[arg-type]
    least = f"{2 / 2**most:.3f} at the least with {most} seeds" if most > 1 else "not with one seed"
    return (
        f"{markdown(head, lines)}\n\n"
        "Standard error: over seeds. Interval: bootstrap over seeds and tasks together; it is about these worlds and "
        f"settings only, and too narrow when seeds are few. p: exact sign-flip test over seeds, two-sided ({least}). "
        f"Differences shown: {len(lines)}; nothing is corrected for looking at more than one.\n"
    )
