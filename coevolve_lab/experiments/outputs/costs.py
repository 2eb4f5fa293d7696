"""What feedback costs and brings (table 7): its share of the wall-clock, in the table's own units."""

from __future__ import annotations

import polars as pl

from coevolve_lab import figures, paper
from coevolve_lab.experiments.outputs.artefact import Artefact
from coevolve_lab.experiments.results import Played, Results
from coevolve_lab.figures.costs import EVOLUTION_STAGES

TABLE = 7
ASIDE = ("assemble", "evaluate")  # preparing a run and measuring it are no part of its work
_NOTE = """\
Feedback is stages 2 and 3 (reflect, explore, abstract, validate); loading a run and evaluating it are left out of all
sums. Seconds are of the machine that played the runs, other programs on it included, so only the share says something
elsewhere. score_before is that of {first} with the same seed, as in the paper."""


def costs(results: Results) -> list[Artefact]:
    """The last method of the experiment (with feedback) against the first (without); a column's stages as a figure."""
    if len(results.rows) < 2:
        return [Artefact("costs", "Cost of feedback", "Needs a finished run with feedback and one without.")]
    first, other = results.rows[0], results.rows[-1]
    rows: list[tuple[str, str, int, float]] = []
    stages: dict[str, list[pl.DataFrame]] = {}
    for column in results.columns:
        without, having = results.by_seed(first, column), results.by_seed(other, column)
        for seed, one in having.items():
            spent = _stages(results, one)
            if spent.is_empty():
                continue
            stages.setdefault(column, []).append(spent)
            rows += [(column, name, seed, value) for name, value in _seconds(spent).items()]
            if seed in without:
                gained = _gain(without[seed].last.score, one.last.score)
                rows += [(column, name, seed, value) for name, value in gained.items()]
    if not rows:
        return [Artefact("costs", "Cost of feedback", "The finished runs have no cost on record.")]
    own = pl.DataFrame(rows, schema=["method", "environment", "seed", "score"], orient="row")
    frame = paper.side_by_side(own, TABLE, scale=1)
    here = frame.filter(pl.col("method").is_in(own["method"].unique().to_list()))
    text = f"{paper.markdown(here)}\n{_NOTE.format(first=first)}\n"
    made = [Artefact("costs", "Cost of feedback", text, frame)]
    for column, of_seeds in stages.items():
        every = pl.concat(of_seeds).group_by("round", "stage", maintain_order=True)
        mean = every.agg(pl.col("seconds").sum() / len(of_seeds))
        text = f"Seconds of {other} by round and stage: mean over seeds ({len(of_seeds)})."
        made.append(Artefact(f"stages_{column}", f"Stages: {column}", text, mean, figures.cost_share(mean)))
    return made


def _stages(results: Results, one: Played) -> pl.DataFrame:
    aside = ", ".join(f"'{stage}'" for stage in ASIDE)
    return results.reader(one.cell).sql(
        f"select round, stage, sum(seconds) as seconds from stage_costs where round > 0 and stage not in ({aside}) "
        "group by all order by all"
    )


def _seconds(spent: pl.DataFrame) -> dict[str, float]:
    evolution = spent.filter(pl.col("stage").is_in(EVOLUTION_STAGES))
    rounds, total = evolution["round"].n_unique(), float(spent["seconds"].sum())
    feedback = float(evolution["seconds"].sum())
    made = {"feedback_time_ratio_percent": 100 * feedback / total, "total_time_s": total}
    return made | ({"single_feedback_cost_s": feedback / rounds} if rounds else {})


def _gain(before: float, after: float) -> dict[str, float]:
    made = {"score_before": 100 * before, "score_after": 100 * after}
    return made | ({"relative_gain_percent": 100 * (after - before) / before} if before else {})
