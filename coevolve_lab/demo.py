"""The first run that someone sees: seed, evaluate, a few rounds, evaluate, figures, with a line about each round."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from coevolve_lab.config import Config, load_config
from coevolve_lab.errors import StoreError
from coevolve_lab.loop import CoEvolve
from coevolve_lab.report import evaluations_table, rounds_table, write_figures
from coevolve_lab.store import RunReader

NOTEBOOK = "notebooks/01_quickstart.ipynb"


def demo_folder(run_dir: str | Path, fresh: bool) -> Path:
    """``run_dir`` itself; with ``fresh``, the first of run_dir, run_dir-2, run_dir-3, ... that does not exist."""
    folder, number = Path(run_dir), 1
    while fresh and folder.exists():
        number += 1
        folder = Path(run_dir).with_name(f"{Path(run_dir).name}-{number}")
    return folder


def at_once(text: str) -> None:
    """Print, and not only when a buffer is full: a log file should show the round that has just ended."""
    print(text, flush=True)


def play_demo(
    config: str | Path | Config | Mapping[str, Any],
    run_dir: str | Path,
    rounds: int | None = None,
    say: Callable[[str], None] = at_once,
    progress: bool = True,
) -> RunReader:
    """Make the run, or finish it when it was interrupted, or show it when it is finished. Returns its reader.

    rounds: how many (the config's by default). Raises what ``CoEvolve`` raises, with how to start afresh when the
    folder holds a run of another config.
    """
    started, loaded = time.monotonic(), load_config(config)
    wanted = loaded.rounds if rounds is None else rounds
    try:
        run = CoEvolve(loaded, run_dir, progress=progress)
    except StoreError as error:
        if "another config" not in str(error):
            raise
        raise StoreError(f"{error}. Or start afresh beside it: coevolve-lab demo --fresh") from None
    with run:
        done = run.reader.committed_round
        for line in introduction(loaded, wanted):
            say(line)
        if done is not None and done >= wanted:
            say(f"\n{run.run_dir} is finished ({done} rounds); this is what it found. A new one: --fresh\n")
        else:
            if done is not None:
                say(f"\n{run.run_dir} was left after round {done}: going on from there")
            _finish(run, wanted, say)
        _sum_up(run, say)
    say(f"{time.monotonic() - started:.0f} s, at most {_peak_gigabytes():.1f} GB of memory")
    return run.reader


def introduction(config: Config, rounds: int) -> list[str]:
    """What is about to run, and what it is not."""
    classes = config.environment.options.get("classes")
    where = config.environment.name + (f" ({', '.join(classes)})" if classes else "")
    lines = [f"An agent and its tasks improve each other: {rounds} rounds on {where}."]
    if config.policy.model == "tiny":
        tiny, warm = config.policy.tiny, config.policy.warm_start
        planted = (
            f" of which a share is wrong on purpose, from {warm.noise_common:.0%} for the\n"
            f"most to {warm.noise_rare:.0%} for the least demonstrated tool: that is what there is to unlearn."
        )
        lines.append(
            f"The policy is a tiny transformer ({tiny.layers} layers, width {tiny.hidden}), made here from nothing\n"
            "and warm-started on demonstrations" + (planted if warm.noise_common or warm.noise_rare else ".")
        )
        if config.evolution.explorer.kind == "scripted" and config.engine.kind == "torch":
            lines.append("No LLM, no GPU, no network.")
    else:
        lines.append(f"The policy is {config.policy.model}.")
    if config.evolution.explorer.kind == "scripted":
        lines.append(
            "The explorer is a script that walks the environment's API: an honest stand-in for the paper's LLM."
        )
    return lines


def round_line(row: Mapping[str, Any], rounds: int, split: str) -> str:
    """A round in one line; ``row`` as in ``rounds_table``, whose score is of ``split``."""
    parts = [f"round {row['round']}/{rounds}"]
    if row["reward"] is not None:
        parts.append(f"reward {row['reward']:.3f}")
    if row["score"] is not None:
        parts.append(f"{split.replace('_', '-')} {row['score']:.3f} ± {row['stderr']:.3f}")
    if row["signals"]:
        parts.append(row["signals"])
    outcomes = [name for name in ("accepted", "held", "retained", "discarded") if name != "held" or row[name]]
    drafts = ", ".join(f"{row[name]} {name}" for name in outcomes)
    parts += [f"drafts {drafts}", f"{row['tasks']} tasks"]
    if row["flat"] is not None:
        parts.append(f"{row['flat']:.0%} of groups flat")
    return " | ".join([*parts, f"{row['seconds']:.0f} s"])


def _finish(run: CoEvolve, wanted: int, say: Callable[[str], None]) -> None:
    if run.reader.committed_round is None:
        say("\nseeding D_0 by unguided exploration, and warming up the policy (kept for later runs)")
    run.seed_tasks()
    split = run.config.environment.evaluation_split
    if run.step == 0:
        _evaluate_once(run)
        say(round_line(_last_row(run), wanted, split))
    while run.round_in_progress <= wanted:
        run.round()
        say(round_line(_last_row(run), wanted, split))
    _evaluate_once(run)
    run.snapshot()


def _evaluate_once(run: CoEvolve) -> None:
    """Evaluate the present policy unless the run holds that already: an interrupted run comes by twice."""
    split = run.config.environment.evaluation_split
    seen = evaluations_table(run.reader).select("step", "split").rows()
    if (run.step, split) not in seen:
        run.evaluate(split)


def _last_row(run: CoEvolve) -> dict[str, Any]:
    return rounds_table(run.reader).row(-1, named=True)


def _sum_up(run: CoEvolve, say: Callable[[str], None]) -> None:
    split = run.config.environment.evaluation_split
    rows = [row for row in evaluations_table(run.reader).to_dicts() if row["split"] == split]
    say(f"\n{'':8}{'training steps':>15}{'tasks in D_t':>14}{'success on ' + split:>24}")
    for label, row in (("before", rows[0]), ("after", rows[-1])) if len(rows) > 1 else (("now", rows[-1]),):
        success = f"{row['score']:.3f} ± {row['stderr']:.3f}"
        say(f"{label:8}{row['step']:>15}{row['task_set']:>14}{success:>24}")
    apart = ", whose start states and names are in no training task" if split == "held_out" else ""
    say(f"({rows[-1]['tasks']} tasks{apart}; ± is one standard error)\n")
    say("writing figures ...")
    folder = run.run_dir / "figures"
    written, missing = write_figures(run.reader, folder)
    for sentence in missing:
        say(f"  {sentence}")
    say(f"run folder  {run.run_dir}")
    say(f"figures     {folder} ({len(written)} files; open score_per_step.html)")
    say(f"notebook    make lab, then {NOTEBOOK}; with this run: CoEvolve.open({str(run.run_dir)!r})")


def _peak_gigabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
