"""What queries look like as vectors: diversity over time (table 15), the map (figure 3c), similarity (figure 5)."""

from __future__ import annotations

import polars as pl

from coevolve_lab import figures, paper
from coevolve_lab.evaluation import max_similarity
from coevolve_lab.evaluation.embedding import is_sentence_model, label
from coevolve_lab.evaluation.growth import NEIGHBOURS, Embedded, embedded, growth
from coevolve_lab.evaluation.projection import project
from coevolve_lab.experiments.outputs.artefact import Artefact, markdown, published_table, shown
from coevolve_lab.experiments.results import Played, Results
from coevolve_lab.records import Task

TABLE = 15
_FEWEST = 4  # tasks that a map can be made of
_PUBLISHED = {"sr_new": "sr_percent", "ed_rel_u_new": "ed_rel_percent"}
_SHOWN = {
    "sr_new": f"SR@{NEIGHBOURS}, new",
    "sr_all": f"SR@{NEIGHBOURS}, D_t",
    "ed_rel_u_new": "ED_rel (u), new",
    "ed_rel_v_new": "ED_rel (v), new",
    "ed_rel_u_all": "ED_rel (u), D_t",
    "max_similarity_new": "largest similarity, new",
}


def diversity(results: Results) -> list[Artefact]:
    """SR and ED_rel by round for each method; those of the first method beside table 15, by training step."""
    frames = []
    for one in results.reported:
        measured = growth(_embedded(results, one))
        step = pl.col("round").replace_strict(_steps(results, one), default=0, return_dtype=pl.Int64).alias("step")
        frames.append(one.placed(measured.select(step, pl.all())))
    if not frames:
        return [Artefact("diversity", "Diversity and relevance", "No run is finished yet.")]
    frame = pl.concat(frames)
    made = [Artefact("diversity", "Diversity and relevance of the tasks", _diversity_text(results, frame), frame)]
    if published_table(results.plan.experiment.compares) == TABLE:
        made.append(_beside(results, frame))
    return made


def _beside(results: Results, frame: pl.DataFrame) -> Artefact:
    first = results.rows[0]
    own = (
        frame.filter(pl.col("row") == first, pl.col("column") == results.columns[0])
        .select(pl.col("step").cast(pl.String).alias("method"), "seed", *_PUBLISHED)
        .unpivot(list(_PUBLISHED), index=["method", "seed"], variable_name="environment", value_name="score")
        .drop_nulls("score")
        .with_columns(pl.col("environment").replace(_PUBLISHED), pl.col("score") * 100)
    )
    compared = paper.side_by_side(own, TABLE, scale=1)
    text = (
        f"Percent, {first}, tasks that entered at that training step. SR depends on k, which the paper does not give: "
        f"here it is {NEIGHBOURS}. ED_rel is without bias (u), since the paper has a value below 0.\n\n"
        f"{paper.markdown(compared)}"
    )
    return Artefact("diversity_published", "Beside the published values", text, compared)


def _diversity_text(results: Results, frame: pl.DataFrame) -> str:
    lines = []
    for row, column in frame.select("row", "column").unique(maintain_order=True).iter_rows():
        own = frame.filter(pl.col("row") == row, pl.col("column") == column)
        for step in own["step"].unique().sort():
            there = own.filter(pl.col("step") == step)
            values = (shown(there[name].drop_nulls().to_list(), 1, 100, count=False) for name in _SHOWN)
            lines.append([f"{row}, {column}", str(step), shown(there["tasks"].to_list(), 0, count=False), *values])
    note = (
        f"Percent, mean ± standard error over seeds, on {label(results.embedding)}. SR: similarity to the {NEIGHBOURS} "
        "nearest other tasks, low is diverse. ED_rel: distance from the evaluation tasks. new: tasks that entered at "
        "that step."
    )
    return f"{note}\n\n{markdown(['method', 'step', 'tasks', *_SHOWN.values()], lines)}\n"


def task_map(results: Results) -> list[Artefact]:
    """Figure 3c of the first seed of each method: all its tasks on one map, as D_t filled up."""
    made = []
    for row in results.rows:
        for column in results.columns:
            played = results.by_seed(row, column)
            if not played:
                continue
            one = played[min(played)]
            found = _embedded(results, one)
            if len(found.tasks) < _FEWEST:
                continue
            flat, steps = project(found.vectors), _steps(results, one)
            points = pl.DataFrame(
                {
                    "x": flat[:, 0],
                    "y": flat[:, 1],
                    "origin": [task.origin for task in found.tasks],
                    "step": [steps.get(task.round, 0) for task in found.tasks],
                    "task": [task.id for task in found.tasks],
                }
            )
            text = (
                f"Seed {one.cell.seed}: t-SNE of {label(found.model)}, made of all tasks at once. "
                "What is near is alike; distances between clusters mean nothing. The paper published the picture only."
            )
            name = f"map_{row}_{column}".replace(" ", "-")
            made.append(Artefact(name, f"Map of tasks: {row}, {column}", text, points, figures.task_map(points)))
    return made or [Artefact("map", "Map of tasks", "No finished run has tasks enough for a map.")]


def similarity(results: Results) -> list[Artefact]:
    """Figure 5: each synthesized task's largest similarity to an evaluation task, all seeds together."""
    rows = []
    for one in results.reported:
        found = _embedded(results, one)
        for task, value in zip(found.tasks, max_similarity(found.vectors, found.targets), strict=True):
            if task.origin not in ("benchmark", "seed"):
                rows.append((one.row, one.column, one.cell.seed, task.id, float(value)))
    schema = ["row", "column", "seed", "task", "similarity"]
    if not rows:
        return [Artefact("similarity", "Similarity to evaluation tasks", "No finished run has synthesized a task.")]
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    shared = frame.with_columns(environment=pl.format("{}, {}", "row", "column"))
    beside = paper.figure("5") if is_sentence_model(results.embedding) else None
    lines = []
    for name in shared["environment"].unique(maintain_order=True):
        own = shared.filter(pl.col("environment") == name)
        by_seed = own.group_by("seed").agg(pl.col("similarity").mean())["similarity"].to_list()
        high = own.filter(pl.col("similarity") >= 0.9).height / own.height
        lines.append([name, str(own.height), shown(by_seed, 3), f"{high:.1%}"])
    table = markdown(["", "tasks", "mean largest similarity", "at 0.9 and above"], lines)
    text = f"Cosine of {label(results.embedding)}; mean ± standard error over seeds (n).\n\n{table}\n"
    if beside is not None:
        text += f"\nOf the paper's histogram only the range is published: {paper.LABEL}, figure 5.\n"
    figure = figures.similarity_histogram(shared, beside)
    return [Artefact("similarity", "Largest similarity to an evaluation task", text, frame, figure)]


def _embedded(results: Results, one: Played) -> Embedded:
    tasks = results.reader(one.cell).records(Task)
    return embedded(tasks, results.evaluation_tasks(one), results.embedding, results.vectors)


def _steps(results: Results, one: Played) -> dict[int, int]:
    """Training steps done when a round's tasks entered, by round."""
    return dict(results.reader(one.cell).sql("select round, max(step) from updates group by round").iter_rows())
