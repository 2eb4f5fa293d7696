"""Plays the next round of runs with an LLM explorer, each in a forked process that somebody else may kill meanwhile.

Arguments: FOLDER... Prints ``began PID`` and ``ended CODE`` for each, one after the other, so that torch is imported
once. Nothing in the library knows of this.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import openai.resources.chat.completions  # noqa: F401  (once, before the processes are forked)
import torch

from coevolve_lab.loop import CoEvolve
from tests import loop_world  # noqa: F401  (registers the environment)


def main(*folders: str) -> None:
    torch.set_num_threads(1)
    for folder in folders:
        child = os.fork()
        if child == 0:
            print("began", os.getpid(), flush=True)
            CoEvolve.open(Path(folder), progress=False).round()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print("ended", os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
