"""The policy of any committed round, put together without what trains and explores."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig

from coevolve_lab import CoEvolve
from coevolve_lab.assembly import check_for_cpu, round_of_version, stored_policy, stored_versions
from coevolve_lab.environments import register_environment
from coevolve_lab.errors import ConfigError, PolicyError, StoreError
from coevolve_lab.policy.policy import trainable_weights
from coevolve_lab.store import RunReader
from tests.evolution.toy_world import ToyWorld
from tests.loop_world import new_run, warm_cache

pytestmark = pytest.mark.usefixtures(warm_cache.__name__)


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory, warm_cache: Path) -> Path:
    """Two rounds of two training steps each."""
    folder = tmp_path_factory.mktemp("assembly") / "run"
    with new_run(folder) as run:
        run.rounds(2)
    return folder


@pytest.fixture
def reader(run_dir: Path) -> RunReader:
    return RunReader(run_dir)


def test_one_version_is_stored_with_each_round(reader: RunReader) -> None:
    assert stored_versions(reader) == {0: 0, 2: 1, 4: 2}
    assert round_of_version(reader, 2) == 1


def test_a_version_between_two_commits_is_an_error_that_names_those_stored(reader: RunReader) -> None:
    with pytest.raises(StoreError, match=r"version 3 .* stored versions: 0 \(round 0\), 2 \(round 1\), 4 \(round 2\)"):
        round_of_version(reader, 3)


def test_a_run_without_a_commit_stores_none(tmp_path: Path) -> None:
    with new_run(tmp_path / "fresh") as run:
        assert stored_versions(run.reader) == {}
        with pytest.raises(StoreError, match="none is"):
            round_of_version(run.reader, 0)


def test_each_round_gives_its_own_weights(run_dir: Path, reader: RunReader) -> None:
    with CoEvolve.open(run_dir, progress=False) as run:
        policies = {round: stored_policy(run.config, reader, round)[1] for round in (0, 1, 2)}
        newest = trainable_weights(run._ready().policy.model)
    weights = {round: trainable_weights(policy.model) for round, policy in policies.items()}
    assert {round: policy.version for round, policy in policies.items()} == {0: 0, 1: 2, 2: 4}
    assert all(policy.engine.policy_version == policy.version for policy in policies.values())
    assert all(torch.equal(newest[name], weights[2][name]) for name in newest)
    for one, other in ((0, 1), (1, 2)):
        assert any(not torch.equal(weights[one][name], weights[other][name]) for name in newest)


def test_threads_that_a_run_of_this_process_chose_are_left_alone(run_dir: Path, reader: RunReader) -> None:
    with CoEvolve.open(run_dir, progress=False) as run:
        run._ready()
        before = torch.get_num_threads()
        stored_policy(run.config.model_copy(update={"threads": before + 1}), reader, 0)
    assert torch.get_num_threads() == before


def test_confusions_are_refused_where_the_world_knows_none(tmp_path: Path) -> None:
    class Plain(ToyWorld):
        name = "no-confusions"

        def __init__(self, max_observation_chars: int = 40) -> None:
            super().__init__()

    register_environment(Plain.name, Plain)
    settings = {"environment": {"name": Plain.name}, "policy": {"warm_start": {"noise_rare": 0.5}}}
    with (
        new_run(tmp_path / "run", **settings) as run,
        pytest.raises(ConfigError, match=r"'no-confusions' has no confusable\(tool\); set both to 0"),
    ):
        run.seed_tasks()


def test_a_damaged_checkpoint_is_named(run_dir: Path, tmp_path: Path) -> None:
    shutil.copytree(run_dir, tmp_path / "own")
    reader = RunReader(tmp_path / "own")
    (reader.checkpoint(1) / "policy.json").write_text("{}")
    with pytest.raises(PolicyError, match="no usable policy checkpoint"):
        stored_versions(reader)


@pytest.mark.parametrize(("size", "fits"), [(8, False), (16, False), (24, False), (32, True), (64, True), (128, True)])
def test_heads_that_a_cpu_server_has_no_attention_for_are_refused(size: int, fits: bool) -> None:
    said = LlamaConfig(hidden_size=4 * size, num_attention_heads=4)
    otherwise = LlamaConfig(hidden_size=64, num_attention_heads=1, head_dim=size)
    for model in (said, otherwise):
        if fits:
            check_for_cpu(model, adapter=True)
        else:
            with pytest.raises(ConfigError, match=f"no attention for heads of {size}"):
                check_for_cpu(model, adapter=True)
    with pytest.raises(ConfigError, match="whole weights"):
        check_for_cpu(said, adapter=False)
