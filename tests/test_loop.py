"""The ring at toy size: stages alone and together, what they record, and where it came from."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from coevolve_lab import CoEvolve
from coevolve_lab.config import load_config
from coevolve_lab.errors import ConfigError, ExplorerError, PolicyError, RunLockedError, StoreError
from coevolve_lab.records import Signal, Trajectory, Verdict
from coevolve_lab.signals import Detector, register_signal
from coevolve_lab.store import RunWriter
from tests.loop_world import assert_nothing_twice, new_run, rows, warm_cache

pytestmark = pytest.mark.usefixtures(warm_cache.__name__)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, warm_cache: Path) -> Iterator[CoEvolve]:
    """Two rounds of round(). Only looked at."""
    run = new_run(tmp_path_factory.mktemp("finished") / "run")
    run.rounds()
    yield run
    run.close()


def test_round_is_nothing_but_the_stages_in_order(finished: CoEvolve, tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    run.seed_tasks()
    for _ in range(2):
        for _ in range(run.config.training.steps_per_round):
            batch = run.rollout()
            run.train(batch)
            run.find_signals(batch)
        contexts = run.reflect()
        triplets = run.explore(contexts)
        drafts = run.abstract(triplets)
        verdicts = run.validate(drafts)
        run.append(verdicts)
        run.evaluate()
        run.commit()
    by_hand, whole = rows(run), rows(finished)
    for table in whole:
        assert by_hand[table] == whole[table], table
    assert whole["signals"]
    assert any(update["trained_tokens"] for update in whole["updates"])


def test_the_same_seed_gives_the_same_run_and_another_seed_another(finished: CoEvolve, tmp_path: Path) -> None:
    other = new_run(tmp_path / "run", seed=3)
    other.seed_tasks()
    assert rows(other)["tasks"] != [t for t in rows(finished)["tasks"] if t["round"] == 0]


def test_d_t_only_grows_and_every_round_is_committed(finished: CoEvolve) -> None:
    manifests = finished.reader.manifests()
    assert list(manifests) == [0, 1, 2]
    sizes = [manifest.counters["tasks"] for manifest in manifests.values()]
    assert sizes[0] == finished.config.evolution.initial_tasks
    assert sizes == sorted(sizes)
    assert sizes[-1] > sizes[0]
    assert finished.tasks()["id"].to_list() == [task.id for task in finished.task_set]
    origins = finished.sql("select distinct round, origin from tasks order by round").rows()
    assert origins == [(0, "seed"), (1, "feedback"), (2, "feedback")]


def test_a_feedback_task_leads_back_to_the_policy_that_was_weak(finished: CoEvolve) -> None:
    chain = finished.sql(
        """
        select t.id, s.kind, j.id as trajectory, j.policy_version, u.step
        from tasks t
        join drafts d on d.id = t.draft_id
        join triplets p on p.rollout_id = d.rollout_id and p.context_id = d.context_id and p.index = 0
        join contexts c on c.id = d.context_id
        join signals s on s.id = c.signal_id
        join trajectories j on j.id = s.trajectory_id
        join updates u on u.step = j.step and u.policy_version = j.policy_version + 1
        """
    )
    unguided = finished.sql(
        "select t.id from tasks t join drafts d on d.id = t.draft_id join contexts c on c.id = d.context_id "
        "where t.round > 0 and c.signal_id is null and c.kind = 'coverage'"
    )
    added = finished.sql("select id from tasks where round > 0")["id"].to_list()
    assert chain.height > 0
    assert sorted([*chain["id"], *unguided["id"]]) == sorted(added)


def test_costs_and_metrics(finished: CoEvolve) -> None:
    stages = {"rollout", "train", "signals", "reflect", "explore", "abstract", "validate", "evaluate"}
    costs = finished.sql("select stage, count(*) n, min(seconds) least from stage_costs where round = 1 group by all")
    assert {stage: n for stage, n, _ in costs.rows()} == {
        s: 2 if s in ("rollout", "train", "signals") else 1 for s in stages
    }
    assert costs["least"].min() >= 0
    tokens = finished.sql("select sum(tokens) from stage_costs where stage = 'rollout'").item()
    assert tokens == finished.sql("select sum(n_tokens) from trajectories where purpose = 'train'").item()
    metrics = finished.metrics()
    assert metrics["step"].to_list() == [1, 2, 3, 4]
    assert metrics["score"].is_null().to_list() == [True, False, True, False]
    assert finished.snapshot().exists()
    assert_nothing_twice(finished)


def test_every_stage_can_be_called_alone_and_again_with_edited_input(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    run.seed_tasks()
    picked = run.task_set[:2]
    batch, again = run.rollout(picked), run.rollout(picked)
    assert [t.task_id for t in batch] == [task.id for task in picked for _ in range(4)] == [t.task_id for t in again]
    assert not {t.id for t in batch} & {t.id for t in again}
    praised = [dataclasses.replace(t, score=float(k % 2)) for k, t in enumerate(batch)]
    first, second = run.train(praised), run.train(again)
    assert (first.step, second.step, run.step) == (1, 2, 2)
    assert (first.reward, first.trained_tokens > 0) == (0.5, True)
    signals = run.find_signals(praised)
    assert {s.trajectory_id for s in signals if s.kind == "boundary"} == {t.id for t in praised}
    assert run.find_signals(praised) == signals
    assert run.signals().height == len(signals)
    contexts, more = run.reflect(signals[:1]), run.reflect(signals[:1])
    assert contexts[0].signal_id == signals[0].id
    edited = [dataclasses.replace(contexts[0], focus_pattern=("put",))]
    triplets = run.explore(edited) + run.explore(more)
    drafts = run.abstract(triplets) + run.abstract(triplets[:2])
    verdicts = run.validate(drafts, limit=1)
    assert sum(v.outcome == "accepted" for v in verdicts) == 1
    added = run.append(verdicts)
    assert len(added) == 1
    assert run.append(verdicts) == []
    run.round()
    assert_nothing_twice(run)
    assert run.tasks().height == len(run.task_set)


def test_empty_and_foreign_input(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    run.seed_tasks()
    assert run.rollout([]) == []
    update = run.train([])
    assert (update.groups, update.gradient_norm) == (0, 0.0)
    assert run.find_signals([]) == []
    assert run.explore([]) == []
    assert run.abstract([]) == []
    assert run.validate([]) == []
    assert run.append([]) == []
    contexts = run.reflect([])  # no signal: the floor's share becomes the whole
    assert [c.kind for c in contexts] == ["coverage"] * run.config.evolution.contexts_per_round
    outside = [dataclasses.replace(run.task_set[0], id="mine")]
    batch = [dataclasses.replace(t, score=float(k % 2)) for k, t in enumerate(run.rollout(outside))]
    assert run.reflect(run.find_signals(batch))[0].task_id == "mine"
    ghost = Signal("ghost", "boundary", "nobody", "nothing", "nowhere", 0, 0, 0.0, ("put",))
    with pytest.raises(ExplorerError, match="nobody"):
        run.reflect([ghost])
    with pytest.raises(PolicyError, match="temperature"):
        run.train([dataclasses.replace(batch[0], temperature=0.5)])
    run.round()
    assert_nothing_twice(run)


def test_signals_of_an_earlier_round_can_be_reflected_on(finished: CoEvolve, tmp_path: Path) -> None:
    run = finished.fork(2, tmp_path / "later")
    signals = run.reader.records(Signal, "round = 1")
    contexts = run.reflect(signals[:3])
    assert {c.signal_id for c in contexts if c.signal_id} <= {s.id for s in signals[:3]}
    assert any(c.signal_id for c in contexts)


def test_two_rounds_on_bfcl(tmp_path: Path) -> None:
    """The real environment with a policy that can do nothing yet."""
    options = {"classes": ["GorillaFileSystem", "TicketAPI"], "held_out_tasks": 6, "explore_starts": 8}
    environment = {"name": "bfcl", "evaluation_split": "held_out", "max_steps": 3, "options": options}
    run = new_run(
        tmp_path / "run",
        environment=environment,
        policy={"warm_start": {"steps": 10, "demonstrations": 40}},
        rollout={"tasks_per_step": 2, "group_size": 2},
    )
    run.rounds()
    assert run.sql("select distinct environment from tasks")["environment"].to_list() == ["bfcl"]
    assert run.metrics()["score"].to_list() == [None, 0.0, None, 0.0]
    assert run.sql("select count(*) from tasks where round > 0").item() > 0
    with pytest.raises(ConfigError, match="no split 'tset'"):
        run.evaluate("tset")
    assert run.evaluate("held_out").tasks == 6
    assert_nothing_twice(run)


@pytest.mark.parametrize("mode", ["random", "uniform", "none"])
def test_modes_without_feedback(tmp_path: Path, mode: str) -> None:
    run = new_run(tmp_path / "run", evolution={"mode": mode})
    run.rounds(1)
    kinds = run.sql("select distinct kind from contexts where round > 0")["kind"].to_list()
    added = run.sql("select distinct origin from tasks where round > 0")["origin"].to_list()
    assert kinds == added == ([] if mode == "none" else [mode])
    assert run.signals().height > 0  # they are still found, and shown beside the control


def test_a_round_without_signals(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run", signals={"forgetting": None, "boundary": None, "rare": None})
    run.rounds(1)
    assert run.signals().is_empty()
    assert run.sql("select distinct kind from contexts where round = 1")["kind"].to_list() == ["coverage"]
    bare = new_run(
        tmp_path / "bare", signals={"forgetting": None, "boundary": None, "rare": None}, evolution={"balance": "none"}
    )
    bare.rounds(1)
    assert bare.sql("select * from contexts where round = 1").is_empty()
    assert bare.reader.committed_round == 1


def test_a_registered_signal_runs_and_its_state_comes_back(tmp_path: Path) -> None:
    @register_signal("wordy")
    class Wordy(Detector):
        def __init__(self, tokens: int) -> None:
            self.tokens, self.seen = tokens, 0

        def detect(self, trajectories: Any) -> list[Signal]:
            return [self.mark(t) for t in trajectories if sum(len(s.token_ids) for s in t.steps) > self.tokens]

        def update(self, trajectories: Any) -> None:
            self.seen += len(trajectories)

        def state(self) -> dict[str, Any]:
            return {"seen": self.seen}

        def load(self, state: Any) -> None:
            self.seen = state["seen"]

    run = new_run(tmp_path / "run", signals={"custom": {"wordy": {"tokens": 3}}})
    run.rounds(1)
    assert "wordy" in run.signals()["kind"].to_list()
    assert run.reader.state()["detectors"]["wordy"] == {"seen": 32}
    run.close()
    again = CoEvolve.open(tmp_path / "run", progress=False)
    again.round()
    assert again.reader.state()["detectors"]["wordy"] == {"seen": 64}


def test_evaluations_between_rounds_are_kept_and_change_nothing_else(finished: CoEvolve, tmp_path: Path) -> None:
    run = finished.fork(1, tmp_path / "evaluated")
    first = run.evaluate()
    assert run.evaluate().outcomes == first.outcomes
    run.close()
    run = CoEvolve.open(tmp_path / "evaluated", progress=False)
    run.evaluate()
    assert run.sql("select count(*) from evaluations where round = 1").item() == 4
    assert run.metrics().height == 2
    run.round()
    theirs, ours = rows(finished), rows(run)
    assert theirs["updates"] == ours["updates"]
    assert theirs["tasks"] == ours["tasks"]
    assert_nothing_twice(run)


def test_a_policy_is_evaluated_elsewhere_as_that_world_is_played(finished: CoEvolve, tmp_path: Path) -> None:
    run = finished.fork(1, tmp_path / "abroad")
    elsewhere = load_config(run.config, {"environment": {"max_steps": 1}})
    with pytest.raises(ConfigError, match="needs a label"):
        run.evaluate(elsewhere=elsewhere)
    made = run.evaluate(elsewhere=elsewhere, label="short")
    split = run.config.environment.evaluation_split
    assert made.split == f"short:{split}"
    steps = f"select max(n_steps) from trajectories where starts_with(id, 'eval-short:{split}')"
    assert run.sql(steps).item() == 1
    assert run.metrics()["score"].to_list() == finished.metrics().filter(pl.col("round") == 1)["score"].to_list()


def test_an_evaluation_in_the_middle_of_a_round_commits_nothing(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    run.seed_tasks()
    run.rollout()
    run.evaluate()
    run.close()
    run = CoEvolve.open(tmp_path / "run", progress=False)
    assert run.step == 0  # the first call that needs the run's parts takes the lock and clears what was not committed
    assert run.trajectories().is_empty()
    run.round()
    assert_nothing_twice(run)


def test_a_fork_goes_its_own_way_and_leaves_the_source_alone(finished: CoEvolve, tmp_path: Path) -> None:
    before = rows(finished)
    fork = finished.fork(1, tmp_path / "fork", evolution={"mode": "uniform"}, signals={"rare": None})
    assert fork.config.evolution.mode == "uniform"
    assert fork.reader.committed_round == 1
    fork.round()
    assert rows(finished) == before
    ours, theirs = rows(fork), before
    assert [u for u in ours["updates"] if u["round"] == 1] == [u for u in theirs["updates"] if u["round"] == 1]
    assert {t["origin"] for t in ours["tasks"] if t["round"] == 2} == {"uniform"}
    assert not [s for s in ours["signals"] if s["round"] == 2 and s["kind"] == "rare"]
    same = finished.fork(1, tmp_path / "same")
    same.round()
    assert rows(same)["updates"] == before["updates"]
    with pytest.raises(StoreError, match="no round 9"):
        finished.fork(9, tmp_path / "nine")
    with pytest.raises(ConfigError, match="keeps the tasks of its run, and these are loop-toy's"):
        finished.fork(1, tmp_path / "abroad", environment={"name": "bfcl"})
    assert not (tmp_path / "abroad").exists()
    sibling = finished.fork(0)
    assert sibling.run_dir.name == "run-fork1"
    assert_nothing_twice(fork)


def test_rounds_that_are_there_cost_nothing(finished: CoEvolve, tmp_path: Path) -> None:
    with finished.fork(2, tmp_path / "run") as writing, RunWriter.open(writing.run_dir):  # somebody has the lock
        writing.rounds(2)
        assert writing._parts is None
        with pytest.raises(RunLockedError):
            writing.rounds(3)


def test_a_seed_that_cannot_be_found_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    run = new_run(
        tmp_path / "run", evolution={"initial_tasks": 4, "min_calls": 9, "max_calls": 9, "contexts_per_round": 1}
    )
    with pytest.raises(StoreError, match=r"evolution\.initial_tasks"):
        run.seed_tasks()
    assert run.reader.committed_round is None


def test_a_group_whose_engine_broke_is_counted_and_the_round_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run(tmp_path / "run")
    run.seed_tasks()
    batch = run.rollout()
    engine = run._ready().policy.engine
    generate = engine.generate

    def breaks_once(*given: Any, **options: Any) -> Any:
        monkeypatch.setattr(engine, "generate", generate)
        raise PolicyError("out of memory")

    monkeypatch.setattr(engine, "generate", breaks_once)
    broken = run.rollout()
    assert {t.status for t in broken} == {"engine_error"}
    with pytest.warns(UserWarning, match="none of 4 groups can be trained on"):
        assert run.train(broken).groups_dropped == 4
    assert run.find_signals(broken) == []
    one_bad = [dataclasses.replace(t, status="env_error") if k == 0 else t for k, t in enumerate(batch)]
    assert run.train(one_bad).groups_dropped == 1
    run.round()
    assert_nothing_twice(run)
    assert run.reader.records(Trajectory, "status = 'engine_error'") == broken
    assert not run.reader.records(Verdict, "outcome = 'accepted' and task_id is null")
