"""One's own scores beside the published ones, for any table of results in the paper.

Own and published values stay in columns of their own. They are rarely of the same model, and often not of the same
benchmark: what they have in common is what is compared, not how large it is.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from coevolve_lab.errors import ConfigError
from coevolve_lab.paper.published import LABEL, SOURCE, table

# What names a row of each table; its other columns of numbers are what is measured. Table 9 holds settings.
_ROW: dict[int, tuple[str, ...]] = {
    1: ("model",),
    2: ("backbone",),
    3: ("phase",),
    4: ("dimension", "value"),
    5: ("configuration",),
    6: ("trained_on",),
    7: ("benchmark",),
    8: ("benchmark",),
    10: ("method",),
    11: ("setting",),
    12: ("exploration_model",),
    13: ("setting",),
    14: ("dimension", "value"),
    15: ("step",),
}
_OWN = {"method", "environment", "seed", "score"}


def published_scores(number: int) -> pl.DataFrame:
    """A table in long form: columns method (the row's name), environment (the column's), published, source.

    "Method" and "environment" are what they are in most tables; in table 7 the row is a benchmark and the column a
    cost, in table 4 the row is "N 50". Raises ConfigError for a table without results.
    """
    if number not in _ROW:
        raise ConfigError(f"table {number} has no results to lay beside; tables that have: {', '.join(map(str, _ROW))}")
    wide = table(number)
    row = _ROW[number]
    measures = [name for name, dtype in wide.schema.items() if dtype.is_numeric() and name not in row]
    named = wide.select(pl.concat_str(row, separator=" ").alias("method"), pl.col(measures).cast(pl.Float64), SOURCE)
    long = named.unpivot(measures, index=["method", SOURCE], variable_name="environment", value_name="published")
    return long.drop_nulls("published").select("method", "environment", "published", SOURCE)


def side_by_side(
    own: pl.DataFrame,
    number: int,
    rows: Mapping[str, str] | None = None,
    columns: Mapping[str, str] | None = None,
    scale: float = 100.0,
) -> pl.DataFrame:
    """Own results by method and environment, as mean and standard error over seeds, beside a table of the paper.

    own: columns method, environment, seed, score, one row a seed. rows, columns: own method or environment -> what the
    table calls it (``published_scores``); what is in neither keeps its name. scale: what own scores are multiplied by;
    with 100 they are shares in [0, 1], as in the store, and come out in percent; pass 1 for values that are in the
    table's unit already. Returns columns method, environment, own_mean, own_stderr (sample standard deviation over
    sqrt(n), null for one seed), own_seeds, published, source: first the paper's rows, then one's own that it lacks;
    null where one side has nothing. Raises ValueError when a column is missing, a seed occurs twice, a score is not a
    finite number, or a share is not in [0, 1].
    """
    _check(own, scale)
    published = published_scores(number)
    summary = (
        own.with_columns(
            pl.col("method").cast(pl.String).replace(rows or {}),
            pl.col("environment").cast(pl.String).replace(columns or {}),
        )
        .group_by("method", "environment", maintain_order=True)
        .agg(
            (pl.col("score").mean() * scale).alias("own_mean"),
            (pl.col("score").std(ddof=1) * scale / pl.len().sqrt()).alias("own_stderr"),
            pl.len().cast(pl.Int64).alias("own_seeds"),
            pl.col("seed").n_unique().alias("distinct"),
        )
    )
    merged = summary.filter(pl.col("distinct") < pl.col("own_seeds"))
    if merged.height:
        raise ValueError(f"two own results for one seed of {merged.row(0)[:2]}: rows and columns must keep them apart")
    both = published.join(summary, on=["method", "environment"], how="left", maintain_order="left")
    extra = summary.join(published, on=["method", "environment"], how="anti", maintain_order="left")
    joined = pl.concat([both, extra], how="diagonal")
    return joined.select("method", "environment", "own_mean", "own_stderr", "own_seeds", "published", SOURCE)


def _check(own: pl.DataFrame, scale: float) -> None:
    missing = _OWN - set(own.columns)
    if missing:
        raise ValueError(f"own results lack the columns {', '.join(sorted(missing))}")
    score = own["score"].cast(pl.Float64)
    if score.null_count() or not score.is_finite().all():
        raise ValueError("own results have a score that is not a finite number: leave the row out, or find out why")
    if scale == 100.0 and not score.is_between(0, 1).all():
        raise ValueError("own scores must be shares in [0, 1]; pass scale=1 for values in the table's own unit")


def markdown(compared: pl.DataFrame, digits: int = 2) -> str:
    """``side_by_side`` as a Markdown table: a row a method; for each environment one column of own means with their
    standard errors and numbers of seeds, and one of published values, labelled so. A line below it says what is what.
    """
    environments = compared["environment"].unique(maintain_order=True).to_list()
    cells = {(row["method"], row["environment"]): row for row in compared.iter_rows(named=True)}
    head = ["", *(f"{name}: {side}" for name in environments for side in ("own", "published"))]
    lines = [head, ["---", *["---:"] * (len(head) - 1)]]
    for method in compared["method"].unique(maintain_order=True):
        found = [cells.get((method, environment)) for environment in environments]
        lines.append([method, *(text for row in found for text in _texts(row, digits))])
    body = "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)
    cited = "; ".join(compared[SOURCE].drop_nulls().unique(maintain_order=True))
    return f"{body}\n\nOwn: mean ± standard error over seeds (n). {cited or f'No column is {LABEL}'}.\n"


def _texts(row: Mapping[str, object] | None, digits: int) -> tuple[str, str]:
    def number(name: str) -> str:
        return f"{row[name]:.{digits}f}" if row and row[name] is not None else ""

    own = number("own_mean")
    if own and row:
        own += f" ± {number('own_stderr')}" if row["own_stderr"] is not None else ""
        own += f" ({row['own_seeds']})"
    return own, number("published")
