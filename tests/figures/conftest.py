"""A small invented run, as the tables that the store gives."""

from __future__ import annotations

import random

import polars as pl
import pytest

from coevolve_lab import records as r
from coevolve_lab.store import schema

TOOLS = ["cd", "ls", "mv", "grep", "sort", "diff", "post_tweet", "get_stock_info", "lockDoors", "book_flight"]
ROUNDS = 6
STAGES = {
    "rollout": 20,
    "train": 14,
    "signals": 0.3,
    "reflect": 0.2,
    "explore": 2,
    "abstract": 0.4,
    "validate": 1.5,
}


def _solution(rng: random.Random, longest: int) -> tuple[tuple[str, ...], ...]:
    calls = rng.randint(1, 2) + sum(rng.random() < 0.5 for _ in range(longest))
    return (tuple(f"{rng.choice(TOOLS)}(a={i})" for i in range(calls)),)


def _records() -> list[object]:
    rng = random.Random(1)
    made: list[object] = [
        r.Task(f"seed{i}", "bfcl", ("q",), {}, _solution(rng, 3), origin="seed" if i < 80 else "benchmark")
        for i in range(100)
    ]
    for round in range(1, ROUNDS + 1):
        for i in range(30):
            made.append(r.Task(f"f{round}-{i}", "bfcl", ("q",), {}, _solution(rng, 6), origin="feedback", round=round))
        for kind, mean in (("forgetting", 3), ("boundary", 50), ("rare", 25), ("uncertain", 8)):
            for i in range(rng.randint(mean // 2, mean)):
                made.append(r.Signal(f"{kind}{round}-{i}", kind, "t", "k", "g", round, 0, 0.5))
        for i in range(40):
            outcome, reason = rng.choices(
                [("accepted", "ok"), ("retained", "partial"), ("discarded", "duplicate"), ("discarded", "too_short")],
                [70, 8, 12, 10],
            )[0]
            made.append(r.Verdict(f"v{round}-{i}", f"d{round}-{i}", outcome, reason, round))  # type: ignore[arg-type]
        made += [r.StageCost(round, stage, s * rng.uniform(0.8, 1.2)) for stage, s in STAGES.items()]
        score = 0.26 + 0.05 * round + rng.uniform(-0.02, 0.02)
        outcomes = {f"seed{i}": float(rng.random() < score) for i in range(100)}
        made.append(r.Evaluation(f"e{round}", "test", round, round, round * 10, score, 0.034, 200, outcomes, 2.0))
    for step in range(1, 10 * ROUNDS + 1):
        reward = 0.28 + step / 200 + rng.uniform(-0.06, 0.06)
        failed, solved = rng.randint(3, 7), rng.randint(0, 2) + step // 15
        made.append(
            r.Update(
                step, 1 + step // 10, step, reward, rng.gauss(0, 0.01), 0.002 * step**0.5, abs(rng.gauss(0, 0.004)),
                1.1 - step / 120, abs(rng.gauss(0, 1e-6)), rng.uniform(0.3, 0.9), 1e-4, 16, failed, solved, 0, 128,
                5000, 2500, 1.1,
            )
        )  # fmt: skip
    return made


@pytest.fixture(scope="session")
def tables() -> dict[str, pl.DataFrame]:
    empty = {name: pl.DataFrame(schema=dict(columns)) for name, columns in schema.tables().items()}
    return {**empty, **schema.to_frames(_records())}


@pytest.fixture(scope="session")
def empty_tables() -> dict[str, pl.DataFrame]:
    return {name: pl.DataFrame(schema=dict(columns)) for name, columns in schema.tables().items()}
