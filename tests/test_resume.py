"""Design rules 7 and 8 on whole runs: a killed or interrupted run, gone on with, is the run that was never stopped."""

from __future__ import annotations

import gc
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from coevolve_lab import CoEvolve
from coevolve_lab.config import fingerprint
from coevolve_lab.errors import CoEvolveError, ConfigError, RunLockedError, StoreError
from tests.dying_child import POINTS
from tests.loop_world import CONFIG, assert_nothing_twice, new_run, rows, warm_cache

pytestmark = pytest.mark.usefixtures(warm_cache.__name__)
ROOT = Path(__file__).parents[1]
ROUNDS = 3


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory, warm_cache: Path) -> Iterator[CoEvolve]:
    """Three rounds in one go."""
    run = new_run(tmp_path_factory.mktemp("straight") / "run")
    run.rounds(ROUNDS)
    yield run
    run.close()


@pytest.fixture(scope="module")
def two_rounds(tmp_path_factory: pytest.TempPathFactory, straight: CoEvolve) -> CoEvolve:
    """The first two rounds of it."""
    return straight.fork(2, tmp_path_factory.mktemp("two") / "run")


def assert_same_run(run: CoEvolve, straight: CoEvolve) -> None:
    """Records, detectors, weights and optimizer, bit for bit."""
    ours, theirs = rows(run), rows(straight)
    for table in theirs:
        assert ours[table] == theirs[table], table
    assert run.reader.state() == straight.reader.state()
    for round in straight.reader.manifests():
        weights, expected = (load_file(r.reader.checkpoint(round) / "policy.safetensors") for r in (run, straight))
        assert weights.keys() == expected.keys()
        assert all(torch.equal(weights[name], expected[name]) for name in expected)
    ours, theirs = (torch.load(r.reader.checkpoint() / "trainer.pt", weights_only=True) for r in (run, straight))
    assert ours["updates"] == theirs["updates"] > 0
    moments = [
        (s["optimizer"]["state"][k][m]) for s in (ours, theirs) for k in (0, 3) for m in ("exp_avg", "exp_avg_sq")
    ]
    assert all(torch.equal(a, b) for a, b in zip(moments[:4], moments[4:], strict=True))
    assert_nothing_twice(run)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory, straight: CoEvolve) -> Path:
    """A run for each point at which a process was killed; ``straight`` has filled the cache of warm starts."""
    folder = tmp_path_factory.mktemp("killed")
    for point in POINTS:
        straight.fork(1, folder / point)
    command = [sys.executable, "-m", "tests.dying_child", str(folder), *POINTS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=240)
    assert done.stdout.split() == [word for point in POINTS for word in (point, "-9")], done.stderr
    return folder


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_run_ends_as_if_it_had_not_been(killed: Path, straight: CoEvolve, point: str) -> None:
    run = CoEvolve.open(killed / point, progress=False)
    assert run.reader.committed_round == (2 if point == "after_the_manifest" else 1)
    run.rounds(ROUNDS)
    assert_same_run(run, straight)


def test_a_run_in_three_sittings_is_the_run_in_one(straight: CoEvolve, tmp_path: Path) -> None:
    for committed in range(ROUNDS + 1):
        with new_run(tmp_path / "run") as run:
            run.seed_tasks() if committed == 0 else run.round()
            assert run.reader.committed_round == committed
    assert_same_run(CoEvolve.open(tmp_path / "run"), straight)


INTERRUPTS = {  # what raises KeyboardInterrupt, at which of its calls in round 2
    "policy.engine.generate": 2,
    "trainer._accumulate": 1,
    "detectors.1.detect": 2,
    "detectors.2.update": 1,
    "explorer.reflect": 1,
    "explorer.explore": 1,
    "explorer.abstract": 1,
    "guard.screen": 1,
    "policy.save": 1,
}


@pytest.mark.parametrize("target", INTERRUPTS)
def test_an_interrupted_round_goes_on_where_it_was(
    straight: CoEvolve, two_rounds: CoEvolve, tmp_path: Path, target: str
) -> None:
    run = straight.fork(1, tmp_path / "run")
    owner: Any = run._ready()
    *path, name = target.split(".")
    for part in path:
        owner = owner[int(part)] if part.isdigit() else getattr(owner, part)
    function, calls = getattr(owner, name), 0

    def interrupted(*given: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == INTERRUPTS[target]:
            raise KeyboardInterrupt
        return function(*given, **options)

    setattr(owner, name, interrupted)
    with pytest.raises(KeyboardInterrupt):
        run.round()
    setattr(owner, name, function)
    assert run.reader.committed_round == 1
    run.round()
    assert_same_run(run, two_rounds)


@pytest.mark.parametrize(
    ("target", "call"),
    [("_parts.trainer.optimizer._adamw.step", 1), ("_parts.policy.advance", 1), ("_record", 1), ("_record", 6)],
)
def test_ctrl_c_in_the_midst_of_a_change_waits_for_its_end(
    straight: CoEvolve, two_rounds: CoEvolve, tmp_path: Path, target: str, call: int
) -> None:
    run = straight.fork(1, tmp_path / "run")
    run._ready()
    *path, name = target.split(".")
    owner: Any = reduce(getattr, path, run)
    function, calls = getattr(owner, name), 0

    def interrupted(*given: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        result = function(*given, **options)
        if calls == call:
            signal.raise_signal(signal.SIGINT)
        return result

    setattr(owner, name, interrupted)
    with pytest.raises(KeyboardInterrupt):
        run.round()
    assert calls >= call
    setattr(owner, name, function)
    run.round()
    assert_same_run(run, two_rounds)


def test_interrupted_during_evaluation_and_seeding(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    explorer = run._ready().explorer

    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(explorer, "abstract", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run.seed_tasks()
    assert len(run.seed_tasks()) == run.config.evolution.initial_tasks
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("coevolve_lab.loop.evaluate_split", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run.round()
    run.round()
    assert run.reader.committed_round == 1
    assert run.metrics()["score"].is_null().to_list() == [True, False]
    assert_nothing_twice(run)


# ---- one writer


def test_opening_the_run_again_in_this_process_takes_over(tmp_path: Path) -> None:
    first = new_run(tmp_path / "run")
    first.seed_tasks()
    first.rollout()
    with pytest.warns(UserWarning, match=r"round 1 of .* had records that were not committed.*dropped"):
        second = new_run(tmp_path / "run")
    assert second.trajectories().is_empty()
    with pytest.raises(StoreError, match="newer object"):
        first.round()
    assert first.tasks().height == second.tasks().height == 12  # it can still be looked at
    second.round()
    assert_nothing_twice(second)
    second.close()
    second.round()  # closed, and taken up again
    assert second.reader.committed_round == 2


def test_a_wrong_config_does_not_cost_the_open_run_its_round(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    run.seed_tasks()
    batch = run.rollout()
    with pytest.raises(StoreError, match=r"rollout\.temperature: was 1\.0, now 0\.5"):
        new_run(tmp_path / "run", rollout={"temperature": 0.5})
    with pytest.raises(ConfigError, match="temperature"):
        new_run(tmp_path / "run", rollout={"temperatur": 0.5})
    run.train(batch)
    run.round()
    assert run.reader.committed_round == 1


def test_an_object_that_is_gone_does_not_keep_its_run_locked(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    run.seed_tasks()
    del run
    gc.collect()
    CoEvolve.open(tmp_path / "run", progress=False).round()


def test_a_deleted_folder_can_be_used_again(tmp_path: Path) -> None:
    old = new_run(tmp_path / "run")
    old.seed_tasks()
    shutil.rmtree(tmp_path / "run")
    new = new_run(tmp_path / "run", seed=3)
    assert new.reader.committed_round is None
    with pytest.raises(StoreError):
        old.round()


def test_another_process_that_writes_is_named(tmp_path: Path) -> None:
    new_run(tmp_path / "run").close()
    where = str(tmp_path / "run")
    code = f"from coevolve_lab.store import RunWriter; w = RunWriter.open({where!r}); print(1, flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdin=-1, stdout=-1, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "1\n"
        run = CoEvolve.open(tmp_path / "run", progress=False)
        assert run.tasks().is_empty()  # looking is free
        for attempt in (run.seed_tasks, lambda: new_run(tmp_path / "run")):
            with pytest.raises(RunLockedError, match=f"pid {other.pid}"):
                attempt()
        other.kill()
    assert len(new_run(tmp_path / "run").seed_tasks()) == 12


# ---- folders that cannot be gone on with


def test_folders_that_are_no_run_of_this_version(straight: CoEvolve, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="does not exist"):
        CoEvolve.open(tmp_path / "nothing")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("mine")
    with pytest.raises(StoreError, match="not empty"):
        new_run(tmp_path / "notes")
    old = straight.fork(1, tmp_path / "old").run_dir / "config.json"
    content = json.loads(old.read_text())
    old.write_text(json.dumps({**content, "format": 0}))
    with pytest.raises(StoreError, match="format 0"):
        CoEvolve.open(tmp_path / "old")
    # a config of an older version: it has a key that is gone by now
    tree = {**content["config"], "epochs": 3}
    old.write_text(json.dumps({**content, "config": tree, "fingerprint": fingerprint(tree)}))
    with pytest.raises(CoEvolveError, match="epochs"):
        CoEvolve.open(tmp_path / "old")
    old.write_text(json.dumps({**content, "config": {**content["config"], "seed": 5}}))
    with pytest.raises(StoreError, match="edited"):
        CoEvolve.open(tmp_path / "old")


def test_a_missing_checkpoint_or_another_model_is_an_error(straight: CoEvolve, tmp_path: Path) -> None:
    bigger = straight.fork(1, tmp_path / "bigger", policy={"tiny": {"hidden": 64}})
    with pytest.raises(CoEvolveError, match="another model"):
        bigger.round()
    broken = straight.fork(1, tmp_path / "broken")
    shutil.rmtree(broken.reader.checkpoint())
    with pytest.raises(StoreError, match="is missing"):
        broken.round()


def test_a_missing_benchmark_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COEVOLVE_BFCL_HOME", str(tmp_path / "empty"))
    run = CoEvolve({**CONFIG, "environment": {"name": "bfcl"}}, tmp_path / "run", progress=False)
    with pytest.raises(CoEvolveError, match="coevolve-lab install bfcl"):
        run.seed_tasks()
