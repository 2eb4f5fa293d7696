"""Runs that die: for each point named on the command line, a process that kills itself there, the hard way.

Arguments: FOLDER POINT... FOLDER/POINT holds a run with one round, which the process goes on with. Processes are
forked after the imports, one after the other, so that torch is imported once. Nothing in the library knows of this.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch

from coevolve_lab.evolution import ScriptedExplorer
from coevolve_lab.loop import CoEvolve
from coevolve_lab.policy.policy import Policy
from coevolve_lab.policy.torch_engine import TorchEngine
from coevolve_lab.store import run_folder
from coevolve_lab.training.optimizer import Optimizer
from coevolve_lab.training.trainer import Trainer
from tests import loop_world  # noqa: F401  (registers the environment)

ROUND = 2  # in which all of them die
POINTS: dict[str, tuple[Any, str, int, str]] = {  # where, which call of it in that round, before or after it
    "first_rollout": (TorchEngine, "generate", 2, "after"),
    "second_rollout": (TorchEngine, "generate", 6, "before"),
    "before_the_optimizer": (Optimizer, "step", 1, "before"),
    "after_the_optimizer": (Trainer, "step", 2, "after"),
    "signals": (CoEvolve, "find_signals", 2, "after"),
    "exploration": (ScriptedExplorer, "explore", 1, "after"),
    "append": (CoEvolve, "append", 1, "after"),
    "checkpoint": (Policy, "save", 1, "after"),
    "before_the_manifest": (run_folder, "manifest_text", 1, "before"),
    "after_the_manifest": (CoEvolve, "commit", 1, "after"),
}


def die_at(run: CoEvolve, point: str) -> None:
    owner, name, number, side = POINTS[point]
    function, calls = getattr(owner, name), 0

    def counted(*given: Any, **options: Any) -> Any:
        nonlocal calls
        dying = run.round_in_progress == ROUND
        calls += dying
        if dying and calls == number and side == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = function(*given, **options)
        if dying and calls == number:
            run.reader.table("trajectories")  # what a notebook does meanwhile: it leaves pending parts on the disk
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, counted)


def main(folder: str, *points: str) -> None:
    torch.set_num_threads(1)
    for point in points:
        child = os.fork()
        if child == 0:
            run = CoEvolve.open(Path(folder, point), progress=False)
            die_at(run, point)
            run.rounds(ROUND)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(point, os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
