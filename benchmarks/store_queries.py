"""How long the store takes: committing a round of the default size, and SQL over a million steps.

    python benchmarks/store_queries.py [--steps 1000000]

Prints seconds. Goals: aggregates over a million step rows in under 0.3 s.
"""

from __future__ import annotations

import argparse
import functools
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coevolve_lab.config import Config
from coevolve_lab.records import Step, Trajectory
from coevolve_lab.store import RunReader, RunWriter, write_snapshot

TOOLS = [f"tool_{i}" for i in range(120)]
STEPS_PER_TRAJECTORY = 4
TOKENS_PER_STEP = 20


def trajectories(count: int, round: int, rng: random.Random, first: int = 0) -> list[Trajectory]:
    """Episodes of four steps with twenty sampled tokens each, eight to a group."""
    made = []
    for i in range(first, first + count):
        steps = []
        for _ in range(STEPS_PER_TRAJECTORY):
            tool = rng.choice(TOOLS)
            ids = tuple(rng.randrange(1000) for _ in range(TOKENS_PER_STEP))
            logprobs = tuple(-rng.random() for _ in range(TOKENS_PER_STEP))
            action, observation = f"<tool_call>{tool}</tool_call>", f"result of {tool}: {rng.random()}"
            steps.append(Step(0, action, observation, (tool,), rng.random() < 0.2, ids, logprobs, ids[:6]))
        name = f"{round}-{i}"
        score, task = float(rng.random() < 0.5), f"task{i // 8}"
        group = f"{round}-{i // 8}"
        made.append(Trajectory(name, task, group, round, round, i, score, "completed", tuple(steps), ids))
    return made


def timed(label: str, action: Callable[[], Any], repeat: int = 1) -> Any:
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        result = action()
        seconds.append(time.perf_counter() - start)
    print(f"{min(seconds):8.3f} s  {label}")
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1_000_000, help="step rows to query")
    wanted = parser.parse_args().steps
    rng = random.Random(0)
    per_round = 10 * 128  # F training steps x 16 groups x K = 8
    with tempfile.TemporaryDirectory() as folder:
        with RunWriter.create(Path(folder) / "run", Config()) as writer:
            batches = [trajectories(128, 0, rng, first=128 * i) for i in range(10)]
            timed(
                "append a round (10 x 128 trajectories x 4 steps)", lambda: writer.append(t for b in batches for t in b)
            )
            timed("flush it as pending parts", writer.flush)
            timed(
                "commit it", lambda: writer.commit(0, state={"seen": 1}, checkpoint_files={"adapter": bytes(3_000_000)})
            )
            rounds = max(1, wanted // (per_round * STEPS_PER_TRAJECTORY))
            for round in range(1, rounds):
                writer.append(trajectories(per_round, round, rng))
                writer.commit(round)
        reader = RunReader(writer.run_dir)
        rows = timed(f"first query ({rounds} rounds)", lambda: reader.sql("select count(*) as n from steps"))["n"][0]
        print(f"           {rows} step rows in {rounds} parts")
        for query in (
            "select count(*) from steps where failed",
            "select tools[1] as tool, count(*) as n, avg(failed::int) as failed from steps group by tool",
            "select round, avg(score) as score, sum(n_tokens) as n from trajectories group by round order by round",
            "select round, sum(n_tokens) as tokens from steps group by round",
            "select round, avg(list_avg(logprobs)) as logprob from steps group by round",
            "select action, observation from steps where trajectory_id = '3-77' order by index",
        ):
            timed(query, functools.partial(reader.sql, query), repeat=3)
        timed("one trajectory as a record", lambda: reader.records(Trajectory, where="id = '3-77'"), repeat=3)
        timed("one round's trajectories as records", lambda: reader.records(Trajectory, where="round = 0"))
        timed("snapshot", lambda: write_snapshot(writer.run_dir))


if __name__ == "__main__":
    main()
