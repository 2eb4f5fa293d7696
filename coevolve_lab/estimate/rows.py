"""One row of a table of estimates, and tables of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

GIB = 1 << 30


@dataclass(frozen=True)
class Estimate:
    """low and high are the same where there is no range. unit: "" for a number of things."""

    name: str
    low: float
    high: float
    unit: str
    how: str

    @property
    def value(self) -> str:
        """As shown in tables."""
        low, high = (f"{v:,.0f}" if v >= 100 or self.unit == "" else f"{v:.1f}" for v in (self.low, self.high))
        return (low if low == high else f"{low} - {high}") + f" {self.unit}" * bool(self.unit)


def table(rows: Iterable[Estimate]) -> str:
    """The rows as Markdown, with how each was computed."""
    lines = [f"| {row.name} | {row.value} | {row.how} |" for row in rows]
    return "\n".join(["| what | estimate | how |", "|---|---:|---|", *lines])


def comparison(columns: Mapping[str, Sequence[Estimate]]) -> str:
    """Values alone, a column for each heading; a row that a column lacks stays empty there."""
    names = dict.fromkeys(row.name for rows in columns.values() for row in rows)
    values = {heading: {row.name: row.value for row in rows} for heading, rows in columns.items()}
    lines = [" | ".join([f"| {name}", *(found.get(name, "") for found in values.values())]) + " |" for name in names]
    return "\n".join(["| estimate | " + " | ".join(columns) + " |", "|---" + "|---:" * len(columns) + "|", *lines])
