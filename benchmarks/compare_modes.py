"""Feedback against its controls on the CPU default: how much does each way of growing D_t help on held-out tasks?

    python benchmarks/compare_modes.py --seeds 3 --jobs 2 --out data/runs/compare

Every run starts from the same warm policy (one warm start, cached) and differs in its seed (D_0, batches, sampling,
exploration) and in ``evolution.mode``: feedback (signals), random (the explorer's own skew), uniform (every tool
alike), none (a fixed set). Runs that are finished are not made again; an interrupted one goes on. The table shows means
over seeds with their standard error, and the difference to the fixed set paired by seed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from statistics import fmean, stdev

MODES = ("none", "random", "uniform", "feedback")


def play(config: str, folder: Path, mode: str, seed: int, rounds: int | None, held_out: int) -> None:
    """One whole run; nothing is shown, so that several can go side by side."""
    from coevolve_lab import CoEvolve
    from coevolve_lab.config import load_config

    wanted = load_config(config, environment={"options": {"held_out_tasks": held_out}}, seed=seed, threads=1)
    last = rounds or wanted.rounds
    run = CoEvolve(wanted, folder, progress=False, evolution={"mode": mode}, rounds=last, evaluate_every=last)
    run.seed_tasks()
    if run.reader.committed_round == 0 and run.reader.table("evaluations").is_empty():
        run.evaluate()
    run.rounds()
    run.close()


def measure(folder: Path) -> dict[str, float]:
    """The figures of one finished run, from its records."""
    from coevolve_lab.records import Evaluation
    from coevolve_lab.report import evaluation_tasks
    from coevolve_lab.store import RunReader

    reader = RunReader(folder)
    first, last = (lambda found: (found[0], found[-1]))(sorted(reader.records(Evaluation), key=lambda e: e.step))
    tools: dict[str, list[str]] = defaultdict(list)
    for task in evaluation_tasks(reader):
        for name in {call.split("(")[0] for turn in task.solution for call in turn}:
            tools[name].append(task.id)
    rate = {e.id: {t: fmean(e.outcomes[i] for i in ids) for t, ids in tools.items()} for e in (first, last)}
    updates = reader.sql(
        "select sum(groups_all_failed + groups_all_solved) / sum(groups) zero, "
        "sum(groups - groups_all_failed - groups_all_solved - groups_dropped) / count(*) effective from updates"
    )
    return {
        "before": first.score,
        "after": last.score,
        "tools_before": fmean(rate[first.id].values()),
        "tools_after": fmean(rate[last.id].values()),
        "weakest_before": fmean(sorted(rate[first.id].values())[: len(tools) // 4]),
        "weakest_after": fmean(sorted(rate[last.id].values())[: len(tools) // 4]),
        "zero_variance": updates["zero"][0],
        "effective_groups": updates["effective"][0],
        "tasks": reader.sql("select count(*) n from tasks")["n"][0],
    }


def shown(values: list[float], digits: int = 3) -> str:
    """mean +- standard error."""
    error = stdev(values) / len(values) ** 0.5 if len(values) > 1 else float("nan")
    return f"{fmean(values):.{digits}f} ± {error:.{digits}f}"


def table(results: dict[str, dict[int, dict[str, float]]]) -> str:
    """Markdown, one row a mode."""
    head = (
        "| mode | before | after | gain over fixed set, paired | weakest quarter of tools, after "
        "| zero-variance groups | groups with a gradient a step | tasks in D_t |"
    )
    lines = [head, "|" + "---|" * 8]
    for mode, runs in results.items():
        seeds = [seed for seed in runs if seed in results.get("none", {})]
        gains = [runs[s]["after"] - results["none"][s]["after"] for s in seeds]
        columns = [shown([r[name] for r in runs.values()]) for name in ("before", "after")]
        columns.append("" if mode == "none" or not gains else shown(gains))
        columns += [shown([r[name] for r in runs.values()]) for name in ("weakest_after", "zero_variance")]
        columns += [shown([r[name] for r in runs.values()], 1) for name in ("effective_groups", "tasks")]
        lines.append(f"| {mode} | " + " | ".join(columns) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default="configs/bfcl-tiny.yaml")
    parser.add_argument("--out", type=Path, default=Path("data/runs/compare"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--held-out", type=int, default=400)
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--one", nargs=2, metavar=("MODE", "SEED"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        mode, seed = given.one
        play(given.config, given.out / f"{mode}-s{seed}", mode, int(seed), given.rounds, given.held_out)
        return
    waiting = [(mode, seed) for seed in range(given.seeds) for mode in given.modes]
    running: list[tuple[str, int, subprocess.Popen[bytes]]] = []
    results: dict[str, dict[int, dict[str, float]]] = {mode: {} for mode in given.modes}
    first = True  # alone, since it makes the warm start that the others share
    while waiting or running:
        while waiting and len(running) < (1 if first else given.jobs):
            mode, seed = waiting.pop(0)
            command = [sys.executable, __file__, *sys.argv[1:], "--one", mode, str(seed)]
            running.append((mode, seed, subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"})))
        mode, seed, process = running.pop(0)
        if process.wait() != 0:
            sys.exit(f"the run {mode}-s{seed} failed; run this again to go on")
        first = False
        results[mode][seed] = measure(given.out / f"{mode}-s{seed}")
        print(f"{mode}-s{seed}: {results[mode][seed]['before']:.3f} -> {results[mode][seed]['after']:.3f}", flush=True)
    print(table(results))


if __name__ == "__main__":
    main()
