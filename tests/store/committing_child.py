"""A writer that tests kill: commits round after round. Arguments: RUN_DIR and, optionally, a number n.

With a number n it kills itself, the hard way, right before its n-th call that changes the folder's names or syncs a
file, counted from the third round on; so every instant between two of them can be tried.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from coevolve_lab import records as r
from coevolve_lab.store import RunWriter

ROWS = 5


def round_records(round: int) -> list[Any]:
    """What each round appends: trajectories with two steps each, and a cost."""
    steps = (r.Step(0, "a", "b", ("ls",), False, (1, 2)), r.Step(0, "c", "d"))
    return [
        *(r.Trajectory(f"r{round}-{i}", "k", "g", 0, round, 0, 1.0, "completed", steps) for i in range(ROWS)),
        r.StageCost(round, "rollout", 1.0),
    ]


def die_at(n: int) -> None:
    """Kill this process before its n-th call from now of the functions that make a write count."""
    calls = 0

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == n:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **options)

        return call

    for name in ("replace", "rename", "fsync", "unlink", "mkdir"):
        setattr(os, name, counted(getattr(os, name)))


def main(run_dir: str, dying_call: int | None) -> None:
    with RunWriter.open(run_dir) as writer:
        first = 0 if writer.committed_round is None else writer.committed_round + 1
        for round in range(first, 10_000):
            if dying_call is not None and round == first + 2:
                die_at(dying_call)
            records = round_records(round)
            writer.append(records[:2])
            writer.flush()
            writer.append(records[2:])
            writer.flush()
            name = f"{round}".encode()
            writer.commit(round, state={"round": round}, checkpoint_files={"weights": name * 1000, "more": name})
            print(round, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None)
