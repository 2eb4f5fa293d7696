"""The command ``coevolve-lab``: every subcommand is one call of the library.

Exit codes: 0 done; 1 something that runs need is missing (doctor); 2 an error that the message explains; 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from coevolve_lab.errors import CoEvolveError, ConfigError, StoreError

if TYPE_CHECKING:
    import polars as pl

    from coevolve_lab.background import RunStatus
    from coevolve_lab.loop import CoEvolve
    from coevolve_lab.records import Evaluation

PROGRAM = "coevolve-lab"
DEMO_CONFIG = "configs/bfcl-tiny.yaml"
DEMO_RUN = "data/runs/demo"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Argument errors exit with 2, as argparse does."""
    args = parser().parse_args(arguments)
    try:
        return args.command(args) or 0
    except CoEvolveError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\n{PROGRAM}: interrupted; committed rounds are kept. {_how_to_go_on(args)}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `... | head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog=PROGRAM, description="Agents and their training data, evolving together.")
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: Any, help: str, run_dir: bool = True) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=help, description=help)
        made.set_defaults(command=command, name=name)
        if run_dir:
            made.add_argument("run_dir", metavar="RUN_DIR", help="folder of the run")
        return made

    demo = add("demo", _demo, "make a first run: seed, a few rounds, evaluation, figures", run_dir=False)
    demo.add_argument("--config", default=DEMO_CONFIG, help=f"a config file (default: {DEMO_CONFIG})")
    demo.add_argument("--run-dir", default=DEMO_RUN, help=f"folder of the run (default: {DEMO_RUN})")
    demo.add_argument("--rounds", type=_count, help="how many rounds (default: the config's)")
    demo.add_argument("--fresh", action="store_true", help="a new run beside the one that is there")

    run = add("run", _run, "start a run from a config, or go on with it", run_dir=False)
    run.add_argument("config", metavar="CONFIG", help="a config file")
    run.add_argument("run_dir", metavar="RUN_DIR", help="folder of the run")
    _add_settings(run)
    run.add_argument("--rounds", type=_count, help="stop after this round (default: the config's)")

    resume = add("resume", _resume, "go on with a run under its own config")
    resume.add_argument("--rounds", type=_count, help="stop after this round (default: the config's)")

    start = add("start", _start, "the same in a kernel of its own, which goes on when this shell is closed")
    start.add_argument("--rounds", type=_count, help="stop after this round (default: the config's)")
    start.add_argument(
        "--import", dest="imports", action="append", default=[], metavar="MODULE", help="load this there first"
    )
    add("status", _status, "what a run does in the background")
    add("pause", _pause, "pause it after the present stage; start goes on")
    stop = add("stop", _stop, "end it once its round is committed; start goes on from there")
    stop.add_argument("--discard", action="store_true", help="at once, without that round")
    logs = add("logs", _logs, "what it printed")
    logs.add_argument("-n", "--lines", type=_count, default=40, help="how many of the last lines (default: 40)")

    evaluate = add("evaluate", _evaluate, "play a split greedily, with a run's latest policy or an API model", False)
    evaluate.add_argument("run_dir", metavar="RUN_DIR", nargs="?", help="folder of the run (--model: of its results)")
    evaluate.add_argument("--split", help="which one (default: environment.evaluation_split; with --model: test)")
    api = evaluate.add_argument_group("an API model", "the key comes from OPENAI_API_KEY, or the variable named")
    api.add_argument("--model", metavar="openai:NAME", help="any model behind an OpenAI-compatible interface")
    api.add_argument("--env", default="bfcl", help="environment (default: bfcl)")
    api.add_argument("--base-url", help="the endpoint, ending in /v1 (default: OPENAI_BASE_URL, or OpenAI's own)")
    api.add_argument("--key-env", default="OPENAI_API_KEY", help="variable that holds the key")
    api.add_argument("--connections", type=_count, default=32, help="calls in flight (default: 32)")
    api.add_argument("--prices", type=float, nargs=2, default=(0.0, 0.0), metavar=("IN", "OUT"), help="per 1M tokens")
    api.add_argument("--max-cost", type=float, help="stop when this much is spent; the same command goes on")
    _add_settings(evaluate)

    figures = add("figures", _figures, "write all figures of a run as HTML, and as PNG where Chromium is")
    figures.add_argument("--out", help="folder (default: RUN_DIR/figures)")

    add("show", _show, "table of a run's rounds and evaluations")

    sql = add("sql", _sql, "one SELECT over a run's tables")
    sql.add_argument("query", metavar="SELECT", help="e.g. 'select kind, count(*) from signals group by kind'")
    sql.add_argument("--csv", action="store_true", help="as CSV")

    add("snapshot", _snapshot, "write all tables of a run into one run.duckdb")

    fork = add("fork", _fork, "a new run that shares a run's rounds and goes on with changed settings")
    fork.add_argument("--round", type=_count, required=True, help="last round to share")
    fork.add_argument("--to", metavar="DIR", help="its folder (default: RUN_DIR-fork1, -fork2, ...)")
    _add_settings(fork)

    install = add("install", _install, "install a benchmark into a place of its own", run_dir=False)
    install.add_argument("benchmark", choices=["bfcl"])

    add("doctor", _doctor, "what this machine has, and what is missing", run_dir=False)
    return top


def settings(assignments: Sequence[str]) -> dict[str, Any]:
    """``["training.learning_rate=1e-4", "seed=1"]`` as a nested mapping; values are read as YAML.

    Raises ConfigError for anything else.
    """
    tree: dict[str, Any] = {}
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        keys = path.split(".")
        if not equals or not all(keys):
            raise ConfigError(
                f"--set takes key.path=value, for example --set training.kl_coef=0.01; got '{assignment}'"
            )
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ConfigError(f"--set {path}: '{text}' is not a YAML value: {error}") from None
        below = tree
        for key in keys[:-1]:
            below = below.setdefault(key, {})
            if not isinstance(below, dict):
                raise ConfigError(f"--set {path}: '{key}' was set to a value before")
        below[keys[-1]] = value
    return tree


def _demo(args: argparse.Namespace) -> None:
    from coevolve_lab.demo import demo_folder, play_demo

    folder = demo_folder(args.run_dir, args.fresh)
    config = [] if args.config == DEMO_CONFIG else ["--config", args.config]
    args.go_on = " ".join([PROGRAM, "demo", *config, "--run-dir", str(folder)])
    play_demo(args.config, folder, args.rounds)


def _run(args: argparse.Namespace) -> None:
    from coevolve_lab.loop import CoEvolve

    changes = settings(args.set)
    with CoEvolve(args.config, args.run_dir, **changes) as run:
        args.go_on = f"{PROGRAM} resume {args.run_dir}"
        run.rounds(args.rounds)
        _print_run(run)


def _resume(args: argparse.Namespace) -> None:
    from coevolve_lab.loop import CoEvolve

    with CoEvolve.open(args.run_dir) as run:
        run.rounds(args.rounds)
        _print_run(run)


def _start(args: argparse.Namespace) -> None:
    from coevolve_lab.background import Background

    background = Background(args.run_dir)
    if background.status().state != "paused":
        _print_status(background.start(args.rounds, args.imports))
    elif args.rounds is None and not args.imports:
        _print_status(background.resume())
    else:
        raise StoreError(f"{args.run_dir} is paused and goes on as it was started; stop it first to change that")


def _status(args: argparse.Namespace) -> None:
    from coevolve_lab.background import Background

    _print_status(Background(args.run_dir).status())


def _pause(args: argparse.Namespace) -> None:
    from coevolve_lab.background import Background

    _print_status(Background(args.run_dir).pause())


def _stop(args: argparse.Namespace) -> None:
    from coevolve_lab.background import Background

    _print_status(Background(args.run_dir).stop(args.discard))


def _logs(args: argparse.Namespace) -> None:
    from coevolve_lab.background import Background

    print(Background(args.run_dir).logs(args.lines))


def _evaluate(args: argparse.Namespace) -> None:
    if args.model:
        _evaluate_api(args)
        return
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
    folder = args.run_dir or f"data/evaluations/{args.env}-{Path(config.name.partition(':')[2]).name}"
    args.go_on = "the same command"
    prompt, completion = args.prices
    endpoint = EndpointConfig(
        model=config.name.partition(":")[2],
        base_url=args.base_url,
        api_key_env=args.key_env,
        price_prompt=prompt,
        price_completion=completion,
    )
    limits = Limits(connections=max(1, args.connections), cost=args.max_cost)
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


def _figures(args: argparse.Namespace) -> None:
    from coevolve_lab.report import write_figures
    from coevolve_lab.store import RunReader

    folder = Path(args.out) if args.out else Path(args.run_dir) / "figures"
    written, missing = write_figures(RunReader(args.run_dir), folder)
    print("\n".join([*missing, f"{len(written)} files in {folder}"]))


def _show(args: argparse.Namespace) -> None:
    from coevolve_lab.loop import CoEvolve

    with CoEvolve.open(args.run_dir) as run:
        _print_run(run)


def _sql(args: argparse.Namespace) -> None:
    from coevolve_lab.store import RunReader

    frame = RunReader(args.run_dir).sql(args.query)
    print(frame.write_csv() if args.csv else as_text(frame), end="" if args.csv else "\n")


def _snapshot(args: argparse.Namespace) -> None:
    from coevolve_lab.store import write_snapshot

    print(write_snapshot(args.run_dir))


def _fork(args: argparse.Namespace) -> None:
    from coevolve_lab.loop import CoEvolve

    with CoEvolve.open(args.run_dir) as run, run.fork(args.round, args.to, **settings(args.set)) as other:
        print(f"{other.run_dir}\ngo on with: {PROGRAM} resume {other.run_dir}")


def _install(args: argparse.Namespace) -> None:
    from coevolve_lab.environments.bfcl import package

    print(f"{args.benchmark} is in {package.install()}")


def _doctor(args: argparse.Namespace) -> int:
    from coevolve_lab.doctor import examine

    findings = examine()
    for finding in findings:
        state = "ok" if not finding.remedy else "MISSING" if finding.needed else "optional"
        print(f"{state:9}{finding.name:13}{finding.found}" + (f"\n{'':22}{finding.remedy}" if finding.remedy else ""))
    return int(any(finding.remedy and finding.needed for finding in findings))


def _print_status(status: RunStatus) -> None:
    print(status)
    if status.connection_file:
        print(f"connection file {status.connection_file} (jupyter console --existing FILE)")
    if status.log:
        print(f"log {status.log}")


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


def _how_to_go_on(args: argparse.Namespace) -> str:
    command = getattr(args, "go_on", None) or f"{PROGRAM} {args.name} with the same arguments"
    return f"Go on with: {command}"


def _add_settings(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--set", action="append", default=[], metavar="KEY.PATH=VALUE", help="change a setting; can be repeated"
    )


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{number} is negative")
    return number
