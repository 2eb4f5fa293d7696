"""What an output of an experiment is made of, and how numbers are written in its tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl


@dataclass(frozen=True)
class Artefact:
    """One result: a table, a figure, or both.

    name: of its files, without an ending. text: Markdown that stands in the results (a table with what a reader must
    know of it). frame: the same numbers in full, for a CSV file. figure: a plotly Figure.
    """

    name: str
    title: str
    text: str = ""
    frame: pl.DataFrame | None = None
    figure: Any = None


def markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table of texts; the first column is aligned left, the others right."""
    rule = ["---", *["---:"] * (len(head) - 1)]
    rows = (" | ".join(cell.replace("|", "\\|") for cell in line) for line in (head, rule, *lines))
    return "\n".join(f"| {row} |" for row in rows)


def mean_and_error(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and standard error (sample standard deviation over sqrt(n)); None as error of one value."""
    mean = sum(values) / len(values)
    if len(values) == 1:
        return mean, None
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return mean, math.sqrt(variance / len(values))


def shown(values: Sequence[float], digits: int = 2, factor: float = 1.0, count: bool = True) -> str:
    """ "mean ± standard error (n)" of values times ``factor``; "" without values."""
    if not values:
        return ""
    mean, error = mean_and_error([value * factor for value in values])
    text = f"{mean:.{digits}f}" + (f" ± {error:.{digits}f}" if error is not None else "")
    return f"{text} ({len(values)})" if count else text


def signed(value: float | None, digits: int = 2) -> str:
    """A number with its sign, also when it is positive; "" for None."""
    return "" if value is None else f"{value:+.{digits}f}"


def shown_p(p_value: float | None) -> str:
    """A p-value with three digits; "" for None."""
    if p_value is None:
        return ""
    return "< 0.001" if p_value < 0.0005 else f"{p_value:.3f}"


def published_table(compares: str | None) -> int | None:
    """The number of the paper's table that an experiment compares with; None for a figure or nothing."""
    kind, _, label = (compares or "").partition(" ")
    return int(label) if kind == "table" else None
