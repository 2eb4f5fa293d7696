"""Real runs in real processes: side by side, gone on with, shared between experiments; a failure harms no other."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import psutil
import pytest

from coevolve_lab.config import load_config
from coevolve_lab.experiments import RunsFailed, costs, expand, listing, load, play
from coevolve_lab.experiments.folders import is_finished
from coevolve_lab.experiments.plan import Plan, world_name
from coevolve_lab.records import Evaluation, Task
from coevolve_lab.store import RunReader

CONFIGS = Path(__file__).parents[2] / "configs"
QUICK = """
small:
  about: as little as can be called a run
  environments: {bfcl: SMOKE}
  seeds: [0]
  set:
    rounds: 1
    policy: {warm_start: {steps: 40, demonstrations: 200}}
    environment: {options: {held_out_tasks: 6}}
    rollout: {tasks_per_step: 3}
    evolution: {initial_tasks: 4, contexts_per_round: 4, tasks_per_round: 2}
"""
FIRST = """
title: Two ways
arms:
  zero_shot: {method: zero_shot}
  grpo: {method: grpo, elsewhere: {files: {set: {environment: {options: {classes: [GorillaFileSystem]}}}}}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("experiments")
    (made / "scales.yaml").write_text(QUICK.replace("SMOKE", str(CONFIGS / "bfcl-smoke.yaml")))
    (made / "first.yaml").write_text(FIRST)
    (made / "second.yaml").write_text(
        "title: The same, and one that cannot be\narms:\n  grpo: {method: grpo}\n"
        "  broken: {method: coevolve, set: {evolution: {explorer: nobody}}}\n"
        "  never: {method: grpo, initial: {evolution: {explorer: nobody}}}\n"
    )
    return made


@pytest.fixture(scope="module")
def played(folder: Path) -> tuple[Plan, Path, list[str]]:
    plan, runs, said = expand(load("first", folder), "small", folder), folder / "runs", []
    play(plan, runs, jobs=2, say=said.append)
    return plan, runs, said


def test_runs_are_played_to_their_end(played: tuple[Plan, Path, list[str]]) -> None:
    plan, runs, said = played
    assert all(is_finished(wanted, runs) for wanted in (*plan.runs, *plan.starts))
    grpo = RunReader(runs / plan.cells[1].key)
    assert grpo.committed_round == 1
    assert {(e.step, e.split) for e in grpo.records(Evaluation)} == {
        (0, "held_out"),
        (1, "held_out"),
        (1, f"{world_name(*plan.cells[1].elsewhere[0])}:held_out"),
    }
    with duckdb.connect(str(runs / plan.cells[1].key / "run.duckdb"), read_only=True) as snapshot:  # after all of them
        assert snapshot.execute("select count(*) from evaluations").fetchone() == (3,)
    assert said[-1].startswith("3/3 ")
    assert not list(runs.glob("**/*.tmp"))


def test_arms_share_their_start(played: tuple[Plan, Path, list[str]]) -> None:
    plan, runs, _ = played
    zero_shot, grpo = (RunReader(runs / cell.key) for cell in plan.cells)
    assert zero_shot.records(Task, "round = 0") == grpo.records(Task, "round = 0")
    first, other = (reader.records(Evaluation, "step = 0")[0] for reader in (zero_shot, grpo))
    assert first.outcomes == other.outcomes
    assert load_config(grpo.config) == plan.cells[1].config


def test_what_is_finished_is_not_played_again(played: tuple[Plan, Path, list[str]], folder: Path) -> None:
    plan, runs, _ = played
    before = {path: path.stat().st_mtime_ns for path in runs.rglob("*")}
    said: list[str] = []
    play(plan, runs, say=said.append)
    assert said == []
    assert {path: path.stat().st_mtime_ns for path in runs.rglob("*")} == before
    assert set(costs(plan, runs)["state"]) == {"finished"}


def test_a_run_that_fails_harms_no_other(played: tuple[Plan, Path, list[str]], folder: Path) -> None:
    _, runs, _ = played
    plan = expand(load("second", folder), "small", folder)
    with pytest.raises(RunsFailed, match=r"2 of 3 failed.*no explorer 'nobody'.*Not begun"):
        play(plan, runs, jobs=2, say=lambda _: None)
    done = {cell.arm: is_finished(cell, runs) for cell in plan.cells}
    assert done == {"grpo": True, "broken": False, "never": False}


def test_one_process_at_a_time_plays_into_a_folder(played: tuple[Plan, Path, list[str]], folder: Path) -> None:
    plan, runs, _ = played
    with (runs / "playing.lock").open("w") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        with pytest.raises(RunsFailed, match="another process plays runs into"):
            play(expand(load("first", folder), "small", folder, seeds=[1]), runs, say=lambda _: None)
        play(plan, runs, say=lambda _: None)  # nothing is missing


def test_a_split_that_is_asked_for_later_is_evaluated_later(played: tuple[Plan, Path, list[str]], folder: Path) -> None:
    _, runs, _ = played
    (folder / "third.yaml").write_text(FIRST + "scales: {small: {arms: [grpo], splits: [validation]}}\n")
    plan = expand(load("third", folder), "small", folder)
    (cell,) = plan.runs
    assert not is_finished(cell, runs)
    updates = RunReader(runs / cell.key).table("updates")
    play(plan, runs, say=lambda _: None)
    reader = RunReader(runs / cell.key)
    assert "validation" in {e.split for e in reader.records(Evaluation)}
    assert reader.table("updates").equals(updates)


def test_costs_are_known_before_anything_is_played(folder: Path, tmp_path: Path) -> None:
    unknown = costs(expand(load("first", folder), "small", folder), tmp_path)
    assert unknown["minutes"].null_count() == unknown.height == 3
    stated = costs(expand(load("table3", CONFIGS / "experiments"), "tiny", CONFIGS / "experiments"), tmp_path)
    assert set(stated["known_from"]) == {"scale's own statement"}
    gpu = costs(expand(load("table3", CONFIGS / "experiments"), "paper", CONFIGS / "experiments"), tmp_path)
    assert "first principles, H100 80 GB" in set(gpu["known_from"])


def test_the_list_says_how_far_each_is(played: tuple[Plan, Path, list[str]], folder: Path) -> None:
    _, runs, _ = played
    states = dict(listing(runs, "small", folder).select("name", "state").iter_rows())
    assert states["first"] == "finished"
    assert states["second"] == "1 of 3 runs"
    assert states["table9"] == "settings, not results"


def test_runs_end_with_a_runner_that_is_killed(folder: Path, tmp_path: Path) -> None:
    program = (
        "from pathlib import Path; from coevolve_lab.experiments import expand, load, play; "
        f"play(expand(load('first', Path({str(folder)!r})), 'small', Path({str(folder)!r})), {str(tmp_path)!r})"
    )
    runner = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert runner.stdout is not None
    assert b"to play" in runner.stdout.readline()
    while not (children := psutil.Process(runner.pid).children()):
        time.sleep(0.05)
    runner.kill()
    runner.wait()
    runner.stdout.close()
    gone, alive = psutil.wait_procs(children, timeout=60)
    assert gone
    assert not alive
