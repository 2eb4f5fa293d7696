"""What runs recorded on their way: signals (figures 3b and 4), validation (3d), lengths of tasks (7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from coevolve_lab import figures, paper
from coevolve_lab.experiments.outputs.artefact import Artefact, markdown, shown
from coevolve_lab.experiments.results import Results
from coevolve_lab.figures.shares import shares_by_kind
from coevolve_lab.figures.verdicts import SURPLUS, last_verdicts

_DRIVEN = pl.col("round") > 0  # what D_0 is made of was explored before there was a signal


def signals(results: Results) -> list[Artefact]:
    """Figure 3b: marked trajectories by round and kind, the mean over seeds."""

    def draw(own: pl.DataFrame, seeds: int) -> Any:
        return figures.overlay_signals(figures.signals_per_round(own, runs=seeds))

    def count(own: pl.DataFrame, seeds: int) -> pl.DataFrame:
        every = own.select("seed").unique().join(own.select("round").unique(), how="cross")
        every = every.join(own.select("kind").unique(), how="cross")
        marks = own.group_by("seed", "round", "kind").len("marks")
        counts = every.join(marks, on=["seed", "round", "kind"], how="left").with_columns(pl.col("marks").fill_null(0))
        return counts.sort("seed", "round", "kind")

    def text(counts: pl.DataFrame) -> str:
        kinds = counts["kind"].unique().sort().to_list()
        lines = []
        for round in counts["round"].unique().sort():
            there = counts.filter(pl.col("round") == round)
            by_kind = [there.filter(pl.col("kind") == kind)["marks"].to_list() for kind in kinds]
            totals = there.group_by("seed").agg(pl.col("marks").sum())["marks"].to_list()
            lines.append([str(round), *(shown(values, 1) for values in (*by_kind, totals))])
        return f"Marks: mean ± standard error over seeds (n).\n\n{markdown(['round', *kinds, 'all'], lines)}\n"

    return _by_place(results, "signals", "Signals per evolution", draw, count, text)


def pass_rate(results: Results) -> list[Artefact]:
    """Figure 3d: what validation made of the drafts of each round, all seeds together. D_0's drafts are left out.

    Held drafts passed, too: whether they enter is up to a person.
    """

    def draw(own: pl.DataFrame, seeds: int) -> Any:
        return figures.overlay_pass_rate(figures.pass_rate(own.filter(_DRIVEN)))

    def count(own: pl.DataFrame, seeds: int) -> pl.DataFrame:
        judged = last_verdicts(own.filter(_DRIVEN)).filter(pl.col("reason") != SURPLUS)
        passed = pl.col("outcome").is_in(["accepted", "held"]).mean().alias("pass_rate")
        return judged.group_by("seed", "round").agg(passed, pl.len().alias("drafts")).sort("seed", "round")

    def text(rates: pl.DataFrame) -> str:
        lines = []
        for round in rates["round"].unique().sort():
            there = rates.filter(pl.col("round") == round)
            lines.append([str(round), shown(there["pass_rate"].to_list(), 1, 100), shown(there["drafts"].to_list(), 0)])
        table = markdown(["round", "percent accepted", "drafts"], lines)
        return f"Mean ± standard error over seeds (n); drafts beyond the round's quota are not counted.\n\n{table}\n"

    return _by_place(results, "verdicts", "Pass rate of drafted tasks", draw, count, text, "pass_rate")


def shares(results: Results) -> list[Artefact]:
    """Figure 4: what share of all marks each kind has, mean and standard error over seeds."""
    marks = _gathered(results, "signals")
    if marks.is_empty():
        return [Artefact("shares", "Signal shares", "No finished run has a signal on record.")]
    own = marks.select("seed", "kind", environment=pl.format("{}, {}", "row", "column"))
    frame = shares_by_kind(own)
    kinds = frame["kind"].unique().sort().to_list()
    lines = []
    for name in frame["environment"].unique(maintain_order=True):
        there = {row["kind"]: row for row in frame.filter(pl.col("environment") == name).iter_rows(named=True)}
        lines.append([name, *(_share(there.get(kind)) for kind in kinds)])
    for name in paper.figure("4")["benchmark"].unique(maintain_order=True):
        there = dict(paper.figure("4").filter(pl.col("benchmark") == name).select("kind", "percent").iter_rows())
        lines.append([f"{paper.LABEL}: {name}", *(f"{there[kind]:.1f}" if kind in there else "" for kind in kinds)])
    text = f"Percent of marks: mean ± standard error over seeds (n).\n\n{markdown(['', *kinds], lines)}\n"
    return [Artefact("shares", "Signal shares", text, frame, figures.signal_shares(own, paper.figure("4")))]


def turns(results: Results) -> list[Artefact]:
    """Figure 7: calls in a task's solution, original against synthesized, all seeds together."""

    def draw(own: pl.DataFrame, seeds: int) -> Any:
        return figures.turn_histogram(own)

    def count(own: pl.DataFrame, seeds: int) -> pl.DataFrame:
        calls = pl.col("solution").list.eval(pl.element().list.len()).list.sum().fill_null(0)
        made = own.select("seed", "origin", calls=calls, turns=pl.col("solution").list.len())
        return made.group_by("seed", "origin", "turns", "calls").len("tasks").sort("seed", "origin", "turns", "calls")

    def text(counts: pl.DataFrame) -> str:
        lines = []
        for origin in counts["origin"].unique().sort():
            there = counts.filter(pl.col("origin") == origin)
            mean = (pl.col("calls") * pl.col("tasks")).sum() / pl.col("tasks").sum()
            by_seed = there.group_by("seed").agg(mean.alias("calls"), pl.col("tasks").sum())
            lines.append([origin, shown(by_seed["calls"].to_list()), shown(by_seed["tasks"].to_list(), 0)])
        note = paper.figure("7")["note"][0]
        table = markdown(["origin", "calls in a solution", "tasks"], lines)
        return f"Mean ± standard error over seeds (n).\n\n{table}\n\n{paper.LABEL}, figure 7, in words: {note}.\n"

    return _by_place(results, "tasks", "Interactions per task", draw, count, text, "turns")


def _by_place(
    results: Results,
    table: str,
    title: str,
    draw: Callable[[pl.DataFrame, int], Any],
    count: Callable[[pl.DataFrame, int], pl.DataFrame],
    text: Callable[[pl.DataFrame], str],
    name: str | None = None,
) -> list[Artefact]:
    """An artefact for each row and column whose runs have something in a table of the store."""
    found, name = _gathered(results, table), name or table
    if found.is_empty():
        return [Artefact(name, title, f"No finished run has {table} on record.")]
    places = found.select("row", "column").unique(maintain_order=True).rows()
    made = []
    for row, column in places:
        own = found.filter(pl.col("row") == row, pl.col("column") == column)
        counted = count(own, own["seed"].n_unique())
        suffix = "" if len(places) == 1 else f"_{row}_{column}".replace(" ", "-")
        heading = title if len(places) == 1 else f"{title}: {row}, {column}"
        made.append(Artefact(f"{name}{suffix}", heading, text(counted), counted, draw(own, own["seed"].n_unique())))
    return made


def _gathered(results: Results, table: str) -> pl.DataFrame:
    """A table of the store over all finished cells, with row, column and seed in front."""
    frames = [one.placed(results.reader(one.cell).table(table)) for one in results.reported]
    return pl.concat(frames) if frames else pl.DataFrame()


def _share(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    error = "" if row["stderr"] is None else f" ± {100 * row['stderr']:.1f}"
    return f"{100 * row['share']:.1f}{error} ({row['seeds']})"
