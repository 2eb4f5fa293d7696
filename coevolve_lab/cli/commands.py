"""What each subcommand does: a call of the library, and its result in words. Imports wait until they are needed."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coevolve_lab.cli.assignments import settings
from coevolve_lab.errors import ConfigError, StoreError

if TYPE_CHECKING:
    import polars as pl

    from coevolve_lab.loop import CoEvolve
    from coevolve_lab.records import Evaluation

PROGRAM = "coevolve-lab"
DEMO_CONFIG = "configs/bfcl-tiny.yaml"
DEMO_RUN = "data/runs/demo"
REPRODUCE_OUT = "data/experiments"
API_DEFAULTS: dict[str, Any] = {  # of what evaluates an API model; see arguments.py
    "env": "bfcl",
    "base_url": None,
    "key_env": "OPENAI_API_KEY",
    "connections": 32,
    "prices": (0.0, 0.0),
    "max_cost": None,
    "set": [],
}


def demo(args: argparse.Namespace) -> None:
    from coevolve_lab.demo import demo_folder, play_demo

    folder = demo_folder(args.run_dir, args.fresh)
    config = [] if args.config == DEMO_CONFIG else ["--config", args.config]
    args.go_on = " ".join([PROGRAM, "demo", *config, "--run-dir", str(folder), *_imports(args)])
    play_demo(args.config, folder, args.rounds)


def run(args: argparse.Namespace) -> None:
    from coevolve_lab.loop import CoEvolve

    changes = settings(args.set)
    with CoEvolve(args.config, args.run_dir, **changes) as run:
        args.go_on = " ".join([PROGRAM, "resume", args.run_dir, *_imports(args)])
        run.rounds(args.rounds)
        _print_run(run)


def resume(args: argparse.Namespace) -> None:
    from coevolve_lab.loop import CoEvolve

    with CoEvolve.open(args.run_dir) as run:
        run.rounds(args.rounds)
        _print_run(run)


def evaluate(args: argparse.Namespace) -> None:
    if args.model:
        _evaluate_api(args)
        return
    ignored = [
        f"--{name.replace('_', '-')}" for name, default in API_DEFAULTS.items() if getattr(args, name) != default
    ]
    if ignored:
        raise ConfigError(
            f"{', '.join(ignored)}: for an API model only (--model openai:NAME); a run's policy is evaluated under the "
            f"run's own config: {PROGRAM} fork --set changes it"
        )
    if args.run_dir is None:
        raise ConfigError("name the RUN_DIR whose policy is to play, or an API model with --model openai:NAME")
    from coevolve_lab.loop import CoEvolve

    with CoEvolve.open(args.run_dir) as run:
        if run.reader.committed_round is None:
            raise StoreError(
                f"{run.run_dir} has no committed round yet; make one with: {PROGRAM} resume {args.run_dir}"
            )
        done = run.evaluate(args.split)
    _print_evaluation(done, f"after step {done.step}")


def _evaluate_api(args: argparse.Namespace) -> None:
    from tqdm import tqdm

    from coevolve_lab.config import EndpointConfig
    from coevolve_lab.endpoint import Limits
    from coevolve_lab.evaluation.api_run import api_config, evaluate_api
    from coevolve_lab.store import RunReader

    config = api_config(args.model, args.env, args.split or "test", **settings(args.set))
    model = args.model.partition(":")[2]  # ``--set name=...`` calls the results something else
    folder = args.run_dir or f"data/evaluations/{args.env}-{Path(model).name}"
    args.go_on = "the same command"
    prompt, completion = args.prices
    endpoint = EndpointConfig(
        model=model,
        base_url=args.base_url,
        api_key_env=args.key_env,
        price_prompt=prompt,
        price_completion=completion,
    )
    limits = Limits(connections=args.connections, cost=args.max_cost)
    with tqdm(desc=f"{config.name} on {config.environment.evaluation_split}", unit="task") as bar:

        def show(played: int, total: int) -> None:
            bar.total = total
            bar.update(played - bar.n)

        done = evaluate_api(config, folder, endpoint, limits, show)
    _print_evaluation(done, f"in {folder}")
    print(
        as_text(
            RunReader(folder).sql(
                "select count(*) as calls, sum(attempts) as requests, sum(prompt_tokens) as prompt_tokens, "
                "sum(completion_tokens) as completion_tokens, sum(cost) as cost from model_calls"
            )
        )
    )


def _print_evaluation(done: Evaluation, where: str) -> None:
    print(f"{done.split}: {done.score:.3f} ± {done.stderr:.3f} on {done.tasks} tasks {where}")
    for name, value in done.detail.items():
        print(f"{name}: {value:.3f}")


def figures(args: argparse.Namespace) -> None:
    from coevolve_lab.report import write_figures
    from coevolve_lab.store import RunReader

    folder = Path(args.out) if args.out else Path(args.run_dir) / "figures"
    written, missing = write_figures(RunReader(args.run_dir), folder)
    print("\n".join([*missing, f"{len(written)} files in {folder}"]))


def show(args: argparse.Namespace) -> None:
    from coevolve_lab.loop import CoEvolve

    with CoEvolve.open(args.run_dir) as run:
        _print_run(run)


def sql(args: argparse.Namespace) -> None:
    from coevolve_lab.store import RunReader

    frame = RunReader(args.run_dir).sql(args.query)
    if args.csv and (nested := [name for name, kind in frame.schema.items() if kind.is_nested()]):
        raise StoreError(
            f"CSV has no lists, and {', '.join(nested)} are: leave them out, or write e.g. to_json({nested[0]})"
        )
    print(frame.write_csv() if args.csv else as_text(frame), end="" if args.csv else "\n")


def snapshot(args: argparse.Namespace) -> None:
    from coevolve_lab.store import write_snapshot

    print(write_snapshot(args.run_dir))


def export(args: argparse.Namespace) -> None:
    from coevolve_lab import environments
    from coevolve_lab.config import load_config
    from coevolve_lab.exchange import export_tasks, export_trajectories
    from coevolve_lab.store import RunReader

    reader = RunReader(args.run_dir)
    place = load_config(reader.config).environment
    environment = None if args.bare else environments.make(place.name, **place.arguments())
    common: dict[str, Any] = {"environment": environment, "overwrite": args.overwrite}
    if args.what == "tasks":
        print(export_tasks(reader, args.to, args.format, with_results=not args.bare, **common))
        return
    print(
        export_trajectories(
            reader,
            args.to,
            args.format,
            purpose=args.purpose,
            min_score=args.min_score,
            policy_version=args.policy_version,
            with_tokens=args.with_tokens,
            **common,
        )
    )


def import_(args: argparse.Namespace) -> None:
    from collections import Counter

    from coevolve_lab.loop import CoEvolve

    with CoEvolve.open(args.run_dir) as run:
        verdicts = run.import_tasks(args.path)
    counts = Counter(f"{verdict.outcome} ({verdict.reason})" for verdict in verdicts)
    print("\n".join(f"{count} {what}" for what, count in counts.most_common()))


def fork(args: argparse.Namespace) -> None:
    from coevolve_lab.loop import CoEvolve

    with CoEvolve.open(args.run_dir) as run, run.fork(args.round, args.to, **settings(args.set)) as other:
        print(f"{other.run_dir}\ngo on with: {PROGRAM} resume {other.run_dir}")


def reproduce(args: argparse.Namespace) -> None:
    from coevolve_lab.background.status import duration
    from coevolve_lab.experiments import RunsFailed, check, costs, expand, listing, load, play, write

    runs = Path(args.out) / "runs"
    if args.list:
        print(as_text(listing(runs, args.scale)))
        return
    if not args.experiment:
        raise ConfigError(f"name a table or figure; {PROGRAM} reproduce --list has them all")
    plan = expand(load(args.experiment), args.scale, seeds=args.seeds, environments=args.environments)
    check(plan)
    jobs = args.jobs or plan.side_by_side
    print(f"{plan.experiment.title}, scale {args.scale}: {plan.about}", flush=True)
    if args.dry_run:
        expected = costs(plan, runs)
        print(as_text(expected))
        unknown, total = expected["minutes"].null_count(), expected["minutes"].sum()
        print(
            f"about {duration(60 * float(total) / jobs)}, {jobs} side by side"
            + f"; nobody knows how long {unknown} take" * bool(unknown)
        )
        return
    failed = None
    if not args.only_results:
        try:
            play(plan, runs, jobs, say=_at_once)
        except RunsFailed as error:  # what the others show is written all the same
            failed = error
    for path in write(plan, runs, Path(args.out) / "results", pdf=args.pdf, embedding=args.embedding):
        print(path)
    if failed:
        raise failed


def _at_once(line: str) -> None:
    print(line, flush=True)


def install(args: argparse.Namespace) -> None:
    from coevolve_lab.environments.appworld import package as appworld
    from coevolve_lab.environments.bfcl import package as bfcl
    from coevolve_lab.evolution import minilm

    installers = {
        "bfcl": bfcl.install,
        "appworld": appworld.install,
        "appworld-data": appworld.download,
        "minilm": minilm.install,
    }
    print(f"{args.benchmark} is in {installers[args.benchmark]()}")


def doctor(args: argparse.Namespace) -> int:
    from coevolve_lab.config import load_config
    from coevolve_lab.doctor import examine

    if args.set and not args.config:
        raise ConfigError("doctor --set changes settings of a config file: name that CONFIG too")
    findings = examine(load_config(args.config, **settings(args.set)) if args.config else None)
    for finding in findings:
        state = "ok" if not finding.remedy else "MISSING" if finding.needed else "optional"
        print(f"{state:9}{finding.name:15}{finding.found}" + (f"\n{'':24}{finding.remedy}" if finding.remedy else ""))
    return int(any(finding.remedy and finding.needed for finding in findings))


def _imports(args: argparse.Namespace) -> list[str]:
    return [f"--import {name}" for name in args.imports]


def _print_run(run: CoEvolve) -> None:
    from coevolve_lab.report import evaluations_table, rounds_table

    print(run)
    print(as_text(rounds_table(run.reader)))
    print(as_text(evaluations_table(run.reader)))


def as_text(frame: pl.DataFrame) -> str:
    """A whole frame as a Markdown table, floats with three digits."""
    import polars as pl

    with pl.Config(
        tbl_formatting="MARKDOWN",
        tbl_hide_column_data_types=True,
        tbl_hide_dataframe_shape=True,
        tbl_rows=-1,
        tbl_cols=-1,
        tbl_width_chars=1000,
        fmt_str_lengths=200,
        float_precision=3,
    ):
        return str(frame)
