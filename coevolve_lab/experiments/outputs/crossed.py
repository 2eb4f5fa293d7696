"""Who solves which tasks: two methods crossed on the same split (table 8), with McNemar's test."""

from __future__ import annotations

import polars as pl

from coevolve_lab import figures, paper
from coevolve_lab.evaluation.paired import Paired, mcnemar, paired
from coevolve_lab.experiments.outputs.artefact import Artefact, markdown, published_table, shown_p
from coevolve_lab.experiments.results import Results

TABLE = 8
SHARES = ("both_correct", "only_baseline_correct", "only_coevolve_correct", "both_wrong")  # as table 8 has them
_NOTE = """\
p: McNemar's exact test, two-sided, on the tasks that only one of the two solves. It is about these two trained
policies; another seed trains others. “All seeds” counts a task once for each seed, as if those were different tasks, so
its p is too small if seeds fail on the same tasks: read it beside the single seeds."""


def cross(results: Results) -> list[Artefact]:
    """The last method of the experiment against the first, for each column: per seed and over all seeds."""
    if len(results.rows) < 2:
        return [Artefact("cross", "Who solves which tasks", "Needs a finished run of two methods.")]
    first, other = results.rows[0], results.rows[-1]
    made = []
    for column in results.columns:
        a, b = results.by_seed(first, column), results.by_seed(other, column)
        pairs = {seed: paired(a[seed].last.outcomes, b[seed].last.outcomes) for seed in sorted(a.keys() & b.keys())}
        if pairs:
            made.append(_crossed(results, column, first, other, pairs))
    return made


def _crossed(results: Results, column: str, first: str, other: str, pairs: dict[int, Paired]) -> Artefact:
    lines, rows = [], []
    for seed, pair in pairs.items():
        lines.append(_line(f"seed {seed}", pair.counts, pair.p_value))
        rows += [(column, name, seed, 100 * n / pair.tasks) for name, n in zip(SHARES, pair.counts, strict=True)]
    both, only_first, only_other, neither = (sum(pair.counts[i] for pair in pairs.values()) for i in range(4))
    counts = (both, only_first, only_other, neither)
    if len(pairs) > 1:
        lines.append(_line("all seeds", counts, mcnemar(only_first, only_other)))
    text = markdown(["", "both", f"only {first}", f"only {other}", "neither", "p"], lines) + f"\n\n{_NOTE}\n"
    own = pl.DataFrame(rows, schema=["method", "environment", "seed", "score"], orient="row")
    frame = own
    if published_table(results.plan.experiment.compares) == TABLE:
        frame = paper.side_by_side(own, TABLE, scale=1)
        here = frame.filter(pl.col("method") == column)
        text += f"\nPercent of tasks.\n\n{paper.markdown(here)}"
    figure = figures.cross_comparison(first, {other: counts})
    return Artefact(f"cross_{column}", f"Who solves which tasks: {column}", text, frame, figure)


def _line(name: str, counts: tuple[int, ...], p_value: float) -> list[str]:
    total = sum(counts)
    return [name, *(f"{n} ({n / total:.1%})" for n in counts), shown_p(p_value)]
