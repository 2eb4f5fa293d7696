"""What can be typed: the subcommands and their arguments."""

from __future__ import annotations

import argparse
from typing import Any

from coevolve_lab.cli import commands, in_background
from coevolve_lab.cli.commands import API_DEFAULTS, DEMO_CONFIG, DEMO_RUN, PROGRAM, REPRODUCE_OUT


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog=PROGRAM, description="Agents and their training data, evolving together.")
    below = top.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: Any, help: str, run_dir: bool = True) -> argparse.ArgumentParser:
        made = below.add_parser(name, help=help, description=help)
        made.set_defaults(command=command, name=name)
        if run_dir:
            made.add_argument("run_dir", metavar="RUN_DIR", help="folder of the run")
        return made

    demo = add("demo", commands.demo, "make a first run: seed, a few rounds, evaluation, figures", run_dir=False)
    demo.add_argument("--config", default=DEMO_CONFIG, help=f"a config file (default: {DEMO_CONFIG})")
    demo.add_argument("--run-dir", default=DEMO_RUN, help=f"folder of the run (default: {DEMO_RUN})")
    demo.add_argument("--rounds", type=_count, help="how many rounds (default: the config's)")
    demo.add_argument("--fresh", action="store_true", help="a new run beside the one that is there")
    _add_imports(demo)

    run = add("run", commands.run, "start a run from a config, or go on with it", run_dir=False)
    run.add_argument("config", metavar="CONFIG", help="a config file")
    run.add_argument("run_dir", metavar="RUN_DIR", help="folder of the run")
    _add_settings(run)
    _add_imports(run)
    run.add_argument("--rounds", type=_count, help="stop after this round (default: the config's)")

    resume = add("resume", commands.resume, "go on with a run under its own config")
    _add_imports(resume)
    resume.add_argument("--rounds", type=_count, help="stop after this round (default: the config's)")

    start = add(
        "start", in_background.start, "go on with a run in a kernel of its own, which stays when this shell is closed"
    )
    start.add_argument("--rounds", type=_count, help="stop after this round (default: as last started, or config's)")
    _add_imports(start, "kernel_imports", "load this module or .py file there first")
    add("status", in_background.status, "what a run does in the background")
    add("pause", in_background.pause, "pause a background run after the present stage; start goes on")
    stop = add("stop", in_background.stop, "end a background run once its round is committed; start goes on from there")
    stop.add_argument("--discard", action="store_true", help="at once, without that round")
    logs = add("logs", in_background.logs, "what a background run printed")
    logs.add_argument("-n", "--lines", type=_positive, default=40, help="how many of the last lines (default: 40)")

    evaluate = add(
        "evaluate", commands.evaluate, "play a split greedily, with a run's latest policy or an API model", False
    )
    evaluate.add_argument("run_dir", metavar="RUN_DIR", nargs="?", help="folder of the run (--model: of its results)")
    evaluate.add_argument("--split", help="which one (default: environment.evaluation_split; with --model: test)")
    api = evaluate.add_argument_group("an API model", "the key comes from OPENAI_API_KEY, or the variable named")
    api.add_argument("--model", metavar="openai:NAME", help="any model behind an OpenAI-compatible interface")
    api.add_argument("--env", help="the environment that it plays (default: bfcl)")
    api.add_argument("--base-url", help="the endpoint, ending in /v1 (default: OPENAI_BASE_URL, or OpenAI's own)")
    api.add_argument("--key-env", help="variable that holds the key")
    api.add_argument("--connections", type=_positive, help="calls in flight (default: 32)")
    api.add_argument("--prices", type=float, nargs=2, metavar=("IN", "OUT"), help="per 1M tokens")
    api.add_argument(
        "--max-cost", type=float, help="stop when this much is spent in all; with a larger sum the command goes on"
    )
    _add_settings(evaluate)
    _add_imports(evaluate)
    evaluate.set_defaults(**{name: default for name, default in API_DEFAULTS.items() if name != "set"})

    figures = add("figures", commands.figures, "write all figures of a run as HTML, and as PNG where Chromium is")
    figures.add_argument("--out", help="folder (default: RUN_DIR/figures)")
    _add_imports(figures)

    add("show", commands.show, "table of a run's rounds and evaluations")

    sql = add("sql", commands.sql, "one SELECT over a run's tables")
    sql.add_argument("query", metavar="SELECT", help="e.g. 'select kind, count(*) from signals group by kind'")
    sql.add_argument("--csv", action="store_true", help="as CSV")

    add("snapshot", commands.snapshot, "write all tables of a run into one run.duckdb")

    export = add("export", commands.export, "write tasks or trajectories as messages that can be trained on elsewhere")
    export.add_argument("--what", choices=["tasks", "trajectories"], default="tasks", help="(default: tasks)")
    export.add_argument("--to", metavar="PATH", required=True, help=".jsonl, .parquet, or a folder for `datasets`")
    export.add_argument("--format", choices=["jsonl", "parquet", "hf"], help="(default: by the end of PATH)")
    export.add_argument("--bare", action="store_true", help="without the environment: no schemas, no results of tasks")
    export.add_argument("--overwrite", action="store_true", help="replace an earlier export")
    _add_imports(export)
    chosen = export.add_argument_group("trajectories")
    chosen.add_argument("--purpose", choices=["train", "evaluate"], default="train", help="(default: train)")
    chosen.add_argument("--min-score", type=float, help="only those that score at least so much")
    chosen.add_argument("--policy-version", type=_count, help="only those of this version")
    chosen.add_argument("--with-tokens", action="store_true", help="token ids and log-probabilities as sampled")

    imports = add(
        "import", commands.import_, "take tasks from a file or folder into a run, through validation and guard"
    )
    imports.add_argument("path", metavar="PATH", help=".jsonl, .parquet, or a folder of such files")
    _add_imports(imports)

    fork = add("fork", commands.fork, "a new run that shares a run's rounds and goes on with changed settings")
    fork.add_argument("--round", type=_count, required=True, help="last round to share")
    fork.add_argument("--to", metavar="DIR", help="its folder (default: RUN_DIR-fork1, -fork2, ...)")
    _add_settings(fork)

    reproduce = add(
        "reproduce", commands.reproduce, "make a table or figure of the paper from runs of one's own", False
    )
    reproduce.add_argument("experiment", metavar="NAME", nargs="?", help="table5, figure3a, question, ... or a file")
    reproduce.add_argument("--list", action="store_true", help="name all, and how far each is at this scale")
    reproduce.add_argument("--scale", default="tiny", help="smoke, tiny or paper (default: tiny)")
    reproduce.add_argument(
        "--environments", nargs="+", metavar="NAME", help="only in these (default: all that the scale has)"
    )
    reproduce.add_argument("--seeds", type=_count, nargs="+", help="(default: the experiment's at this scale)")
    reproduce.add_argument(
        "--jobs", type=_positive, help="runs side by side (default: what this machine's cores allow)"
    )
    reproduce.add_argument("--dry-run", action="store_true", help="only say what would be played, and how long")
    reproduce.add_argument("--only-results", action="store_true", help="play nothing: write what finished runs give")
    reproduce.add_argument(
        "--out", default=REPRODUCE_OUT, help=f"folder of runs and results (default: {REPRODUCE_OUT})"
    )
    reproduce.add_argument("--pdf", action="store_true", help="figures as PDF too")
    reproduce.add_argument(
        "--embedding", default="minilm", help="minilm, words, or a sentence-embedding model's folder (default: minilm)"
    )

    install = add(
        "install", commands.install, "install a benchmark or the embedding model into a place of its own", run_dir=False
    )
    install.add_argument(
        "benchmark",
        choices=["bfcl", "appworld", "appworld-data", "minilm"],
        help="appworld comes with its mini world; appworld-data downloads the benchmark's own data too; minilm is the "
        "sentence-embedding model of figures 3c and 5 and tables 13 and 15",
    )

    doctor = add("doctor", commands.doctor, "what this machine has, and what is missing", run_dir=False)
    doctor.add_argument("config", metavar="CONFIG", nargs="?", help="for runs with this config file")
    _add_settings(doctor)
    return top


def _add_settings(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--set", action="append", default=[], metavar="KEY.PATH=VALUE", help="change a setting; can be repeated"
    )


def _add_imports(
    command: argparse.ArgumentParser,
    dest: str = "imports",
    help: str = "load this module or .py file first, which registers an environment, explorer or signal of yours",
) -> None:
    command.add_argument("--import", dest=dest, action="append", default=[], metavar="MODULE", help=help)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from 0")
    return int(text)


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from 1")
    return int(text)
