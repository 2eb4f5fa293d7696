"""Every method plays a run to its end, goes on where it stopped, and leaves a whole run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from coevolve_lab import CoEvolve
from coevolve_lab.config import load_config
from coevolve_lab.errors import ConfigError, ReviewPendingError
from coevolve_lab.methods import METHODS, find
from coevolve_lab.paper import published
from coevolve_lab.report import rounds_table
from tests.loop_world import assert_nothing_twice, rows
from tests.methods.conftest import ROUNDS, TESTED, begin

OWN_ROUNDS = ("curriculum_learning", "rest", "reflexion")  # methods whose rounds are not the ring's


def assert_same(run: CoEvolve, straight: CoEvolve) -> None:
    """Records and weights, bit for bit."""
    ours, theirs = rows(run), rows(straight)
    for table in theirs:
        assert ours[table] == theirs[table], table
    weights, expected = (load_file(r.reader.checkpoint() / "policy.safetensors") for r in (run, straight))
    assert all(torch.equal(weights[name], expected[name]) for name in expected)


def test_names_are_those_of_the_papers_rows() -> None:
    rows = {*published.table(10)["method"], *published.table(3)["phase"]}
    ours = {"grpo": "synthetic_data", "coevolve": "feedback"}  # table 3's names of the same
    assert METHODS.keys() - rows == {"uniform_append"}
    assert rows - METHODS.keys() == set(ours.values())
    assert all(method.name == name and method.title and method.source for name, method in METHODS.items())


def test_a_wrong_name_names_the_nearest() -> None:
    assert find("rest") is METHODS["rest"]
    with pytest.raises(ConfigError, match="did you mean 'random_exploration'"):
        find("random")


@pytest.mark.parametrize("name", METHODS)
def test_a_method_plays_a_run_to_its_end(played: Callable[[str], CoEvolve], begun: CoEvolve, name: str) -> None:
    run, method = played(name), METHODS[name]
    assert run.reader.committed_round == run.config.rounds == method.changes.get("rounds", ROUNDS)
    assert_nothing_twice(run)
    assert [t for t in run.tasks().to_dicts() if t["round"] == 0] == begun.tasks().to_dicts()
    trained = name not in ("zero_shot", "reflexion")
    steps = run.config.training.steps_per_round * run.config.rounds * trained
    assert run.sql("select step from updates order by step")["step"].to_list() == list(range(1, steps + 1))
    evaluations = run.sql("select round, tasks from evaluations where split = 'test' order by round").rows()
    assert evaluations == [(round, TESTED) for round in range(run.config.rounds + 1)]
    grew = run.tasks().height > begun.tasks().height
    assert grew == (name in ("random_exploration", "uniform_append", "coevolve"))
    assert (run.run_dir / "run.duckdb").exists()
    assert rounds_table(run.reader).height == run.config.rounds + 1
    costs = run.sql(f"select sum(seconds) s from stage_costs where round = {run.config.rounds}").item()
    assert costs is not None


@pytest.mark.parametrize("name", ["rest", "curriculum_learning"])
def test_what_people_decided_is_taken_up_before_a_round(begun: CoEvolve, tmp_path: Path, name: str) -> None:
    config = load_config(begun.config, METHODS[name].changes, rounds=1, evolution={"review": "manual"})
    with CoEvolve(config, tmp_path / "run", progress=False) as run:
        run.seed_tasks()
        assert run.tasks().is_empty()
        with pytest.raises(ReviewPendingError):
            METHODS[name].play(run)
        for draft in run.held()["draft_id"]:
            run.decide(draft, "accept")
        METHODS[name].play(run)
        assert run.tasks().height == begun.tasks().height
        assert run.reader.committed_round == 1


@pytest.mark.parametrize("name", METHODS)
def test_a_finished_run_is_left_as_it_is(played: Callable[[str], CoEvolve], name: str) -> None:
    before, stages = rows(played(name)), played(name).reader.table("stage_costs").height
    with CoEvolve.open(played(name).run_dir, progress=False) as run:
        METHODS[name].play(run)
        assert rows(run) == before
        assert run.reader.table("stage_costs").height == stages  # not even a model was loaded


@pytest.mark.parametrize("name", [*OWN_ROUNDS, "coevolve"])
def test_a_run_that_was_killed_between_rounds_goes_on_to_the_same_end(
    played: Callable[[str], CoEvolve], tmp_path: Path, name: str
) -> None:
    run = played(name).fork(1, tmp_path / "run")
    METHODS[name].rounds(run)
    assert_same(run, played(name))
    assert not (run.run_dir / "run.duckdb").exists()  # left to whoever evaluates on
    run.close()


@pytest.mark.parametrize("name", OWN_ROUNDS)
def test_an_interrupted_round_begins_anew(
    played: Callable[[str], CoEvolve], begun: CoEvolve, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begin(begun, METHODS[name], tmp_path / "run")

    def interrupted() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run, "commit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            METHODS[name].play(run)
    assert run.reader.committed_round == 0
    METHODS[name].play(run)
    assert_same(run, played(name))
    run.close()
