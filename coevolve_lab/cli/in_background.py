"""What the command does with a run in a kernel of its own. Imports wait until they are needed."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from coevolve_lab.errors import StoreError

if TYPE_CHECKING:
    from coevolve_lab.background import Background, RunStatus


def start(args: argparse.Namespace) -> None:
    from coevolve_lab.background.process import read_json

    background = _background(args)
    status, before = background.status(), read_json(background.folder / "start.json")
    done = -1 if status.committed is None else status.committed
    # Short of the rounds that it was started for, it goes on as it was started, its imports included.
    goes_on = status.state != "running" and before and done < before["rounds"]
    if goes_on and args.rounds is None and not args.kernel_imports:
        _print_status(background.resume())
    elif status.state == "paused":
        raise StoreError(f"{args.run_dir} is paused and goes on as it was started; stop it first to change that")
    else:
        _print_status(background.start(args.rounds, args.kernel_imports))


def status(args: argparse.Namespace) -> None:
    _print_status(_background(args).status())


def pause(args: argparse.Namespace) -> None:
    _print_status(_background(args).pause())


def stop(args: argparse.Namespace) -> None:
    _print_status(_background(args).stop(args.discard))


def logs(args: argparse.Namespace) -> None:
    print(_background(args).logs(args.lines))


def _background(args: argparse.Namespace) -> Background:
    from coevolve_lab.background import Background
    from coevolve_lab.store import RunReader

    RunReader(args.run_dir)  # says what a folder is that is no run
    return Background(args.run_dir)


def _print_status(status: RunStatus) -> None:
    print(status)
    if status.connection_file:
        print(f"connection file {status.connection_file} (jupyter console --existing FILE)")
    if status.log:
        print(f"log {status.log}")
