"""Every table and figure of the paper: what of it is published here, what makes the same from one's own records."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from coevolve_lab.paper.published import sources

_TABLE = "coevolve_lab.paper:side_by_side"


@dataclass(frozen=True)
class Entry:
    """One table or figure. makers: functions ("module:name") that make it of own records; needs: what goes in."""

    name: str
    title: str
    needs: str
    makers: tuple[str, ...] = (_TABLE,)


ENTRIES: tuple[Entry, ...] = (
    Entry("table 1", "Main results by model and benchmark", "scores of a model before and after the loop, by split"),
    Entry("table 2", "Against GRPO on a fixed task set", "scores of zero-shot, GRPO and the loop, by backbone"),
    Entry("table 3", "What each phase adds", "scores of zero-shot, fixed set, random exploration and the loop"),
    Entry("table 4", "Initial tasks N and evolution period F", "scores of the loop at other N and F"),
    Entry("table 5", "Without each signal", "scores of the loop with one signal switched off"),
    Entry("table 6", "Trained on one benchmark, tested on another", "scores of one policy on two environments"),
    Entry(
        "table 7",
        "Cost of feedback",
        "a run's stage_costs; the table besides: its shares and seconds",
        ("coevolve_lab.figures:cost_share", _TABLE),
    ),
    Entry(
        "table 8",
        "Who solves which tasks",
        "outcomes of two policies on one split",
        (
            "coevolve_lab.evaluation:cross_comparison",
            "coevolve_lab.evaluation.paired:paired",
            "coevolve_lab.figures:cross_comparison",
            _TABLE,
        ),
    ),
    Entry("table 9", "Training settings", "nothing: these are settings of the training", ()),
    Entry("table 10", "Against other training methods", "scores of Reflexion, curriculum learning and ReST besides"),
    Entry("table 11", "Without validation", "scores of the loop with and without validation"),
    Entry("table 12", "Exploration models", "scores of the loop with other explorers"),
    Entry("table 13", "Tasks like those of the evaluation", "scores of the loop with evolution.similarity_band set"),
    Entry("table 14", "N and F, further values", "scores of the loop at other N and F"),
    Entry(
        "table 15",
        "Diversity and relevance of the tasks over training",
        "embeddings of the queries of D_t and of the evaluation tasks",
        (
            "coevolve_lab.evaluation.growth:growth",
            "coevolve_lab.evaluation:self_redundancy",
            "coevolve_lab.evaluation:relative_energy_distance",
            _TABLE,
        ),
    ),
    Entry(
        "figure 3a",
        "Score per step",
        "a run's evaluations, and a baseline's",
        (
            "coevolve_lab.figures:score_per_step",
            "coevolve_lab.figures:learning_curves",
            "coevolve_lab.figures:overlay_scores",
        ),
    ),
    Entry(
        "figure 3b",
        "Signals per evolution",
        "a run's signals",
        ("coevolve_lab.figures:signals_per_round", "coevolve_lab.figures:overlay_signals"),
    ),
    Entry(
        "figure 3c",
        "Map of task embeddings over training",
        "embeddings of the queries of D_t",
        ("coevolve_lab.evaluation.projection:project", "coevolve_lab.figures:task_map"),
    ),
    Entry(
        "figure 3d",
        "Pass rate of signal-driven tasks",
        "a run's verdicts",
        ("coevolve_lab.figures:pass_rate", "coevolve_lab.figures:overlay_pass_rate"),
    ),
    Entry("figure 4", "Signal shares", "the signals of one or more runs", ("coevolve_lab.figures:signal_shares",)),
    Entry(
        "figure 5",
        "Largest similarity to evaluation tasks",
        "a run's verdicts, or embeddings of both",
        ("coevolve_lab.evaluation:max_similarity", "coevolve_lab.figures:similarity_histogram"),
    ),
    Entry(
        "figure 7",
        "Interaction turns, original and synthesized",
        "a run's tasks",
        ("coevolve_lab.figures:turn_histogram",),
    ),
)


def catalogue() -> pl.DataFrame:
    """One row for each table and figure: name ("table5", "figure3a"), title, state, needs, makers, published.

    state: "figure" where a function draws it of own records, "table" where one lays own scores beside the paper's,
    "settings" for table 9. That says what there is to call, not that somebody has made the runs that ``needs`` names.
    makers: "module:name" of the functions. published: rows in this package (0: nothing but a picture was published).
    """
    published = dict(sources().select("name", "rows").iter_rows())
    rows = [
        {
            "name": entry.name.replace(" ", ""),
            "title": entry.title,
            "state": _state(entry),
            "needs": entry.needs,
            "makers": list(entry.makers),
            "published": published.get(entry.name, 0),
        }
        for entry in ENTRIES
    ]
    return pl.DataFrame(rows, schema_overrides={"makers": pl.List(pl.String)})


def _state(entry: Entry) -> str:
    if not entry.makers:
        return "settings"
    return "figure" if any(maker.startswith("coevolve_lab.figures:") for maker in entry.makers) else "table"
