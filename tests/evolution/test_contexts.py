from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from coevolve_lab.config import EvolutionConfig
from coevolve_lab.environments.base import Session
from coevolve_lab.errors import EnvironmentFailure
from coevolve_lab.evolution import Occasion, ScriptedExplorer, StartPool, plan_contexts, unguided_contexts
from coevolve_lab.evolution.contexts import Evidence, preferences, proportional, select_signals, spread
from coevolve_lab.records import Signal, Task, Trajectory
from tests.evolution.toy_world import POOLS, TOOLS, ToyWorld

NAMES = [f"tool{i}" for i in range(10)]
ALL_TOOLS = sorted(name for tools in TOOLS.values() for name in tools)


class PlainWorld:
    """The toy world as an environment that cannot be scripted."""

    name = "plain"

    def __init__(self, size: int = 20) -> None:
        self._world = ToyWorld(size)

    def splits(self) -> list[str]:
        return self._world.splits()

    def tasks(self, split: str) -> list[Task]:
        return self._world.tasks(split)

    def open(self, task: Task) -> Session:
        return self._world.open(task)


def test_spread_is_even_and_goes_on_from_round_to_round() -> None:
    counts: Counter[str] = Counter()
    for number in range(1, 8):
        drawn = spread(NAMES, 4, Occasion(number))
        assert len(set(drawn)) == 4
        counts.update(drawn)
        assert max(counts.values()) - min((counts[name] for name in NAMES), default=0) <= 1
    assert spread(NAMES, 10, Occasion(1, seed=1)) != spread(NAMES, 10, Occasion(1, seed=2))


def test_proportional_gives_every_key_its_share_within_one() -> None:
    weights = {"a": 6.0, "b": 3.0, "c": 0.9, "d": 0.1}
    for seed in range(20):
        counts = Counter(proportional(weights, 20, random.Random(seed)))
        assert sum(counts.values()) == 20
        assert all(abs(counts[key] - 20 * weight / 10) < 1 for key, weight in weights.items())
    rare = sum("d" in proportional(weights, 20, random.Random(seed)) for seed in range(400))
    assert 40 < rare < 120  # 0.2 places on average
    assert proportional({}, 5, random.Random(0)) == proportional({"a": 0.0}, 5, random.Random(0)) == []


def test_preferences_follow_zipf_in_an_order_of_the_seed() -> None:
    taste = preferences(NAMES, 1.0, seed=3)
    assert sorted(taste.values(), reverse=True) == pytest.approx([1 / rank for rank in range(1, 11)])
    assert taste == preferences(list(reversed(NAMES)), 1.0, seed=3)
    assert preferences(NAMES, 1.0, seed=4) != taste
    assert set(preferences(NAMES, 0.0, seed=3).values()) == {1.0}


def test_start_pool_knows_all_tools_and_finds_starts_that_offer_them(world: ToyWorld, pool: StartPool) -> None:
    assert list(pool.tools) == ALL_TOOLS
    rng = random.Random(0)
    starts = [pool.sample(rng, ("reset",)) for _ in range(30)]
    assert all("reset" in world.tool_names(start) for start in starts)
    assert len({str(start) for start in starts}) > 20
    assert {start["pool"] for start in starts} == {"train"}
    assert not any(set(POOLS["held_out"]) & {*start["values"], *start["counters"]} for start in starts)
    assert set(world.tool_names(pool.sample(rng, ("erase", "reset")))) == set(ALL_TOOLS)
    assert pool.sample(rng, ("no_such_tool",))["pool"] == "train"


def test_start_pool_of_an_environment_without_a_script_reads_schemas() -> None:
    pool = StartPool(PlainWorld())
    starts = [task.start for task in PlainWorld().tasks("explore")]
    assert list(pool.tools) == ALL_TOOLS
    assert all(pool.sample(random.Random(i), ("add",)) in starts for i in range(10))
    assert all("counters" in pool.sample(random.Random(i), ("add",))["classes"] for i in range(10))
    with pytest.raises(EnvironmentFailure, match="'plain' has no start states"):
        StartPool(PlainWorld(0))


def test_unguided_contexts(world: ToyWorld, pool: StartPool) -> None:
    seeds = unguided_contexts("seed", 5, pool, Occasion(0), "scripted")
    assert [context.id for context in seeds] == [f"ctx-r0-{i}" for i in range(5)]
    assert {(c.kind, c.focus_pattern, c.signal_id, c.task_id) for c in seeds} == {("seed", (), None, None)}
    uniform = unguided_contexts("uniform", 21, pool, Occasion(2), first=5)
    assert uniform[0].id == "ctx-r2-5"
    assert Counter(c.focus_pattern[0] for c in uniform) == dict.fromkeys(ALL_TOOLS, 3)
    assert all(c.focus_pattern[0] in world.tool_names(c.start) for c in uniform)


@pytest.fixture
def round_one(
    task: Callable[..., Task], group: Callable[..., list[Trajectory]], mark: Callable[..., Signal]
) -> tuple[list[Signal], list[Trajectory], list[Task]]:
    """Ten groups on "erase" with one failure each, one group on "add" that always fails: raw counts favour erase."""
    signals, trajectories, tasks = [], [], []
    for i in range(11):
        tool, good = ("erase(key='ant')", i < 10) if i < 10 else ("add(counter='cat', amount=1)", False)
        tasks.append(task(tool, name=f"task-{i}"))
        runs = [([tool], 1.0 if good else 0.0)] * 9 + [([f"!{tool}"], 0.0)]
        members = group(tasks[-1], runs if good else runs[9:], number=i)
        trajectories += members
        signals.append(mark(members[-1], "forgetting"))
    return signals, trajectories, tasks


def tools_of(signals: list[Signal], trajectories: list[Trajectory], tasks: list[Task]) -> Counter[str]:
    evidence = Evidence(trajectories, tasks)
    return Counter(tool for signal in signals for tool in evidence.weak_tools(signal))


def test_without_balance_raw_counts_decide(round_one: Any) -> None:
    chosen = select_signals(*round_one, 22, Occasion(1), None)
    assert Counter(s.id for s in chosen) == {signal.id: 2 for signal in round_one[0]}
    assert tools_of(chosen, *round_one[1:]) == {"erase": 20, "add": 2}
    assert len(select_signals(*round_one, 4, Occasion(1), None)) == 4


def test_with_balance_weakness_per_try_decides(round_one: Any) -> None:
    chosen = select_signals(*round_one, 22, Occasion(1), 0.0)
    assert tools_of(chosen, *round_one[1:]) == {"erase": 2, "add": 20}  # 10 of 100 tries against 1 of 1
    assert len(select_signals(*round_one, 20, Occasion(1), 0.25)) == 15


def test_feedback_plan_is_signals_plus_coverage(explorer: ScriptedExplorer, pool: StartPool, round_one: Any) -> None:
    config = EvolutionConfig(contexts_per_round=28, floor=0.25)
    contexts = plan_contexts(explorer, config, pool, Occasion(1), *round_one)
    assert Counter(c.kind for c in contexts) == {"forgetting": 21, "coverage": 7}
    assert len({c.id for c in contexts}) == 28
    assert {c.focus_pattern[0] for c in contexts if c.kind == "coverage"} == set(ALL_TOOLS)
    assert all((c.signal_id is None) == (c.kind == "coverage") for c in contexts)
    assert contexts == plan_contexts(explorer, config, pool, Occasion(1), *round_one)


def test_a_round_without_signals(explorer: ScriptedExplorer, pool: StartPool) -> None:
    floor = plan_contexts(explorer, EvolutionConfig(contexts_per_round=7), pool, Occasion(1))
    assert {c.focus_pattern[0] for c in floor} == set(ALL_TOOLS)
    assert plan_contexts(explorer, EvolutionConfig(balance="none"), pool, Occasion(1)) == []


@pytest.mark.parametrize(("mode", "count"), [("random", 16), ("uniform", 16), ("none", 0)])
def test_controls_do_not_look_at_signals(
    explorer: ScriptedExplorer, pool: StartPool, round_one: Any, mode: Any, count: int
) -> None:
    config = EvolutionConfig(mode=mode, contexts_per_round=16)
    contexts = plan_contexts(explorer, config, pool, Occasion(1), *round_one)
    assert [c.kind for c in contexts] == [mode] * count
    assert contexts == plan_contexts(explorer, config, pool, Occasion(1))


def test_what_a_signal_is_about(
    task: Callable[..., Task], group: Callable[..., list[Trajectory]], mark: Callable[..., Signal]
) -> None:
    solved = task("show(key='ant')", "copy(source='ant', target='elk')", "reset(counter='cat')")
    calls = [call for turn in solved.solution for call in turn]
    runs = group(solved, [(calls, 1.0), (calls, 1.0), (calls[:1], 0.0), ([calls[0], f"!{calls[1]}", calls[2]], 0.0)])
    evidence = Evidence(runs, [solved])
    assert evidence.weak_tools(mark(runs[2], "boundary")) == ("copy", "reset")  # copy: 2 of 2 against 0 of 2
    assert evidence.weak_tools(mark(runs[2], "forgetting")) == ("show", "copy", "reset")
    assert evidence.weak_tools(mark(runs[2], "rare", ("reset", "show", "reset"))) == ("reset", "show")
    same = group(solved, [(calls, 1.0), (calls, 0.0)], number=1)
    assert Evidence(same, [solved]).weak_tools(mark(same[1], "boundary")) == ("show", "copy", "reset")
    unsolved = task(name="no-solution")
    lone = group(unsolved, [(["show(key='ant')", "erase(key='ant')"], 0.0)], number=2)
    assert Evidence(lone, [unsolved]).weak_tools(mark(lone[0], "forgetting")) == ("show", "erase")
    assert Evidence(runs, [solved]).tries() == {"show": 4, "copy": 4, "reset": 4}
