"""Design rule 7 with real kills: whatever the instant, what was committed is whole and nothing is there twice."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from coevolve_lab import records as r
from coevolve_lab.config import Config
from coevolve_lab.store import RunReader, RunWriter, write_snapshot

CHILD = Path(__file__).with_name("committing_child.py")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(CHILD.parents[2])}
ROWS = 5  # trajectories a round in the child


def start(run_dir: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(CHILD), str(run_dir), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)


def check(run_dir: Path, rounds: int) -> None:
    """The run holds exactly ``rounds`` whole rounds, before and after it is opened, and goes on."""
    committed = RunReader(run_dir, live=False)
    expected = [f"r{round}-{i}" for round in range(rounds) for i in range(ROWS)]
    assert committed.committed_round == rounds - 1
    assert [t.id for t in committed.records(r.Trajectory)] == expected
    assert committed.table("steps").height == 2 * ROWS * rounds
    for round in range(rounds):
        assert committed.state(round) == {"round": round}
        assert (committed.checkpoint(round) / "weights").read_bytes() == f"{round}".encode() * 1000
    live = RunReader(run_dir).table("trajectories")["id"].to_list()
    assert live[: len(expected)] == expected
    assert len(set(live)) == len(live)

    with RunWriter.open(run_dir) as writer:
        assert writer.committed_round == rounds - 1
        assert writer.reader.table("trajectories")["id"].to_list() == expected
        named = {part.file for m in committed.manifests().values() for parts in m.parts.values() for part in parts}
        assert {path.name for path in run_dir.glob("tables/*/*")} == named
        assert len(list((run_dir / "checkpoints").iterdir())) == rounds
        assert not list(run_dir.rglob("*.tmp"))
        writer.append([r.StageCost(rounds, "rollout", 1.0)])
        writer.commit(rounds)
    assert RunReader(run_dir).table("stage_costs")["round"].to_list() == list(range(rounds + 1))
    assert write_snapshot(run_dir).exists()


def test_kill_before_each_call_that_makes_a_write_count(tmp_path: Path) -> None:
    # A round of the child makes 41 such calls: 10 flush, 11-23 write parts, 24-33 state and checkpoint, the 34th puts
    # the manifest in its place, the last 5 remove pending parts. Two processes at a time.
    waiting = [1, 11, 12, 24, 31, 34, 35, 39]
    outcomes = set()
    while waiting:
        now, waiting = waiting[:2], waiting[2:]
        children = []
        for call in now:
            RunWriter.create(tmp_path / f"run{call}", Config()).close()
            children.append(start(tmp_path / f"run{call}", str(call)))
        for call, child in zip(now, children, strict=True):
            output, _ = child.communicate(timeout=60)
            assert child.returncode == -9
            reported = len(output.split())
            committed = (RunReader(tmp_path / f"run{call}").committed_round or 0) + 1
            assert committed in (reported, reported + 1)
            outcomes.add(committed - reported)
            check(tmp_path / f"run{call}", committed)
    assert outcomes == {0, 1}, "no kill fell on one side of the manifest"


@pytest.mark.parametrize("seed", range(3))
def test_kill_at_any_moment(tmp_path: Path, seed: int) -> None:
    run_dir = tmp_path / "run"
    RunWriter.create(run_dir, Config()).close()
    child = start(run_dir)
    assert child.stdout is not None
    for _ in range(3):
        assert child.stdout.readline()
    time.sleep(random.Random(seed).uniform(0, 0.1))
    child.kill()
    output, _ = child.communicate(timeout=60)
    reported = 3 + len(output.split())
    committed = (RunReader(run_dir).committed_round or 0) + 1
    assert committed in (reported, reported + 1)
    check(run_dir, committed)


def test_a_reader_never_fails_nor_sees_anything_missing_or_twice_while_rounds_are_committed(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    RunWriter.create(run_dir, Config()).close()
    reader = RunReader(run_dir)
    child = start(run_dir)
    seen, looks = 0, 0
    try:
        while seen < 20 * ROWS:
            trajectories = reader.records(r.Trajectory)
            assert child.poll() is None
            ids = [t.id for t in trajectories]
            assert ids == [f"r{n // ROWS}-{n % ROWS}" for n in range(len(ids))]
            assert len(ids) >= seen
            seen, looks = len(ids), looks + 1
    finally:
        child.kill()
        child.communicate()
    assert looks > 5
