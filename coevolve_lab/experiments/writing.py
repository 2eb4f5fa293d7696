"""An experiment's results as files: a page to read, a CSV file for each table, each figure for screen and print."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl

from coevolve_lab import figures, paper
from coevolve_lab.errors import ConfigError, PrerequisiteError
from coevolve_lab.experiments.outputs import OUTPUTS, Artefact, Output
from coevolve_lab.experiments.outputs.artefact import published_table
from coevolve_lab.experiments.plan import Cell, Plan
from coevolve_lab.experiments.results import Results, collect

IMAGES = ("svg", "png")
PAGE = "results.md"


def write(
    plan: Plan,
    folder: str | Path,
    out: str | Path,
    *,
    images: bool = True,
    pdf: bool = False,
    embedding: str = "minilm",
) -> list[Path]:
    """Everything that the finished runs of a plan show, in ``out/<experiment>-<scale>``; the page comes first.

    Works on partly finished plans, and the page says what is missing. images: figures as SVG and PNG beside HTML; pdf:
    as PDF too. embedding: what ``evaluation.embedding.embed`` takes, for what compares queries. What cannot be made
    here (no Chromium for images, no embedding model) is named on the page with the remedy and raises nothing. Raises
    ConfigError for an output that does not exist.
    """
    makers = check(plan)
    results = collect(plan, Path(folder), embedding)
    place = Path(out) / f"{plan.experiment.name}-{plan.scale}"
    place.mkdir(parents=True, exist_ok=True)
    made: list[Artefact] = []
    left_out: list[str] = []
    for name, maker in makers.items() if results.cells else ():
        try:
            made += maker(results)
        except PrerequisiteError as error:
            left_out.append(f"No “{name}”: {error}")
    drawn = {artefact.name: artefact.figure for artefact in made if artefact.figure is not None}
    endings = (*(IMAGES if images else ()), *(("pdf",) if pdf else ()))
    written, missing = _write_figures(drawn, place, endings)
    for artefact in made:
        if artefact.frame is not None:
            written.append(place / f"{artefact.name}.csv")
            _flat(artefact.frame).write_csv(written[-1])
    page = place / PAGE
    page.write_text(_page(results, made, [*left_out, *missing], {path.name for path in written}), encoding="utf-8")
    return [page, *written]


def check(plan: Plan) -> dict[str, Output]:
    """What makes each output of a plan. Raises ConfigError for one that does not exist, or a table that was not
    published: better before the runs are played than after."""
    number = published_table(plan.experiment.compares)
    if number is not None:
        paper.published_scores(number)
    return {name: _maker(plan, name) for name in plan.experiment.outputs}


def _maker(plan: Plan, name: str) -> Output:
    if name not in OUTPUTS:
        near = difflib.get_close_matches(name, OUTPUTS, n=1, cutoff=0.0)[0]
        raise ConfigError(f"{plan.experiment.name}: no output '{name}'; did you mean '{near}'? ({', '.join(OUTPUTS)})")
    return OUTPUTS[name]


def _write_figures(drawn: Mapping[str, Any], place: Path, endings: Sequence[str]) -> tuple[list[Path], list[str]]:
    """The files, and a sentence if images could not be made."""
    if not drawn:
        return [], []
    written = figures.save_all(drawn, place, ("html",))
    try:
        written += figures.save_all(drawn, place, endings)
    except PrerequisiteError as error:
        return written, [f"No images: {error}"]
    return written, []


def _page(results: Results, made: Sequence[Artefact], left_out: Sequence[str], files: set[str]) -> str:
    experiment = results.plan.experiment
    compares = f", {experiment.compares} of the paper" if experiment.compares else ""
    parts = [f"# {experiment.title} ({experiment.name}{compares})", _state(results)]
    if experiment.notes:
        parts.append(experiment.notes)
    if left_out:
        parts.append("**Left out here:**\n\n" + "\n".join(f"- {sentence}" for sentence in left_out))
    for artefact in made:
        parts.append(f"## {artefact.title}")
        parts += [text for text in (artefact.text.strip(), _links(artefact, files)) if text]
    parts += ["## What was run", _provenance(results)]
    return "\n\n".join(parts) + "\n"


def _state(results: Results) -> str:
    """Scale, seeds and how much of the plan is finished, in words that nobody can read past."""
    plan = results.plan
    finished, wanted = len({cell.key for cell in results.cells}), len(plan.runs)
    seeds = sorted({cell.seed for cell in plan.cells})
    lines = [
        f"- Scale “{plan.scale}”: {plan.about}.".replace("..", "."),
        f"- Seeds: {', '.join(map(str, seeds))}. Runs: {finished} of {wanted} finished.",
        f"- Written on {date.today().isoformat()} from {results.folder.name}.",
    ]
    if len(seeds) > 1 and not plan.experiment.own_warm_start:
        lines.append("- All seeds begin with one policy: errors over seeds say nothing of what another would do.")
    if results.missing:
        lines.append(
            "- **Unfinished: these numbers will change.** Missing, and in no number below: "
            + "; ".join(f"{arm} ({seeds})" for arm, seeds in _by_arm(results.missing).items())
            + "."
        )
    return "\n".join(lines)


def _by_arm(cells: Sequence[Cell]) -> dict[str, str]:
    """The seeds of cells by "arm, column"."""
    found: dict[str, list[int]] = {}
    for cell in cells:
        found.setdefault(f"{cell.arm}, {cell.column}", []).append(cell.seed)
    return {name: f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}" for name, seeds in found.items()}


def _links(artefact: Artefact, files: set[str]) -> str:
    images = [f"{artefact.name}.{ending}" for ending in ("png", "svg") if f"{artefact.name}.{ending}" in files]
    lines = [f"![{artefact.title}]({images[0]})"] if images else []
    own = sorted(name for name in files if name.rpartition(".")[0] == artefact.name)
    if own:
        lines.append("Files: " + ", ".join(f"[{name}]({name})" for name in own))
    return "\n\n".join(lines)


def _provenance(results: Results) -> str:
    """Every run by the name of its folder, which ends in the fingerprint of its whole config."""
    done = {cell.key for cell in results.cells}
    head = "| arm | column | seed | method | run | state |\n|---|---|---|---|---|---|\n"
    lines = [
        f"| {cell.arm} | {cell.column} | {cell.seed} | {cell.method} | `{cell.key}` | "
        f"{'finished' if cell.key in done else 'missing'} |"
        for cell in results.plan.cells
    ]
    return head + "\n".join(lines) + "\n\nA run's name ends in the fingerprint of its method and whole config."


def _flat(frame: pl.DataFrame) -> pl.DataFrame:
    """Lists as JSON-like text: CSV has none."""
    nested = [name for name, kind in frame.schema.items() if kind.is_nested()]
    return frame.with_columns(pl.col(name).cast(pl.List(pl.String)).list.join(" ") for name in nested)
