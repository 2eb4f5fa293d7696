from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from coevolve_lab.config import EvolutionConfig
from coevolve_lab.errors import EnvironmentFailure, ExplorerError
from coevolve_lab.evolution import Occasion, ScriptedExplorer, StartPool, unguided_contexts
from coevolve_lab.evolution.contexts import preferences
from coevolve_lab.records import ExplorationContext, Signal, Task, TaskDraft, Trajectory, Triplet
from tests.evolution.test_contexts import PlainWorld
from tests.evolution.toy_world import ToySession, ToyWorld

ONE = Occasion(1)
START = {
    "pool": "train",
    "classes": ["values", "counters"],
    "values": {"ant": "red 1"},
    "counters": {"cat": 3, "dog": 4},
}


def context(*focus: str, kind: str = "boundary", **fields: Any) -> ExplorationContext:
    return ExplorationContext(
        **({"id": "ctx-r1-0", "kind": kind, "round": 1, "start": START, "focus_pattern": focus} | fields)
    )


def triplets(*actions: str, rollout: str = "explore-r1-0") -> list[Triplet]:
    """Steps of one rollout; an action that starts with "!" failed."""
    return [
        Triplet(
            f"{rollout}-{i}",
            "ctx-r1-0",
            rollout,
            i,
            a.lstrip("!"),
            "ok",
            a.startswith("!"),
            1,
            (a.lstrip("!").split("(")[0],),
        )
        for i, a in enumerate(actions)
    ]


def test_an_environment_without_a_script_is_refused(config: EvolutionConfig) -> None:
    with pytest.raises(ExplorerError, match="'plain' has no ScriptedWorld"):
        ScriptedExplorer(PlainWorld(), config)


# reflect


def test_reflection_says_what_the_evidence_shows(
    explorer: ScriptedExplorer,
    task: Callable[..., Task],
    group: Callable[..., list[Trajectory]],
    mark: Callable[..., Signal],
) -> None:
    solved = task("show(key='ant')", "copy(source='ant', target='elk')", query="show ant and copy it to elk")
    good = ["show(key='ant')", "copy(source='ant', target='elk')"]
    runs = group(solved, [(good, 1.0), (["show(key='ant')", "!copy(source='elk', target='ant')"], 0.0)])
    signal = mark(runs[1], "boundary")
    (made,) = explorer.reflect([signal], runs, [solved], ONE)
    assert (made.id, made.kind, made.signal_id, made.task_id) == ("ctx-r1-0", "boundary", signal.id, solved.id)
    assert made.explorer == "scripted"
    assert made.start == solved.start
    assert made.focus_pattern == ("copy",)
    assert made.summary == 'Asked "show ant and copy it to elk", the agent called show, copy and scored 0.00.'
    assert made.failure_cause == "Step 2, copy(source='elk', target='ant'), was answered: error: no such key"
    assert made.instability_pattern.startswith("1 of 2 runs of this task solve it; the solving ones call copy")
    assert made.do_not_repeat == ("copy(source='elk', target='ant')",)
    assert made.exploration_objectives == ("Slightly change the arguments of copy.",)


def test_reflection_never_forbids_the_solution_and_bounds_its_quotes(
    explorer: ScriptedExplorer,
    task: Callable[..., Task],
    group: Callable[..., list[Trajectory]],
    mark: Callable[..., Signal],
) -> None:
    solved = task("erase(key='ant')", "erase(key='bee')", query="x" * 10_000)
    runs = group(solved, [(["!erase( key='bee')", f"!put(key='{'y' * 10_000}', text='a')"], 0.0)])
    (made,) = explorer.reflect([mark(runs[0], "forgetting")], runs, [solved], ONE)
    assert len(made.do_not_repeat) == 1
    assert made.do_not_repeat[0].startswith("put(")
    assert max(map(len, [made.summary, made.failure_cause, *made.do_not_repeat])) < 500


@pytest.mark.parametrize(
    ("calls", "status", "cause"),
    [
        (["show(key='ant')"], "completed", "erase should have been called and was not."),
        (["show(key='ant')", "erase(key='bee')"], "truncated_steps", "The episode ended as truncated_steps."),
        (["show(key='ant')", "erase(key='bee')"], "completed", "The right tools were called without an error"),
    ],
)
def test_failure_causes(
    explorer: ScriptedExplorer, task: Any, group: Any, mark: Any, calls: list[str], status: Any, cause: str
) -> None:
    solved = task("show(key='ant')", "erase(key='ant')")
    runs = [replace(run, status=status) for run in group(solved, [(calls, 0.0)])]
    assert explorer.reflect([mark(runs[0], "forgetting")], runs, [solved], ONE)[0].failure_cause.startswith(cause)


def test_every_second_context_starts_afresh_with_the_same_tools(
    world: ToyWorld, explorer: ScriptedExplorer, task: Any, group: Any, mark: Any
) -> None:
    solved = task("erase(key='ant')")
    runs = group(solved, [(["show(key='ant')"], 0.0)])
    rare = mark(runs[0], "rare", ("show", "erase"))
    own, fresh, own_again, fresh_again = explorer.reflect([rare] * 4, runs, [solved], ONE)
    assert own.start == own_again.start == solved.start
    assert len({str(c.start) for c in (own, fresh, fresh_again)}) == 3
    assert set(world.tool_names(fresh.start)) == set(world.tool_names(solved.start))
    assert own.focus_pattern == ("show", "erase")
    assert "show > erase" in own.instability_pattern


def test_reflection_needs_the_evidence(explorer: ScriptedExplorer, task: Any, group: Any, mark: Any) -> None:
    solved = task("erase(key='ant')")
    runs = group(solved, [(["show(key='ant')"], 0.0)])
    with pytest.raises(ExplorerError, match="without trajectory trajectory-0-0"):
        explorer.reflect([mark(runs[0], "rare")], [], [solved], ONE)
    with pytest.raises(ExplorerError, match="without task task-r0-0"):
        explorer.reflect([mark(runs[0], "rare")], runs, [], ONE)


# explore


def test_rounds_times_steps_and_all_of_it_follows_from_the_occasion(
    world: ToyWorld, pool: StartPool, config: EvolutionConfig
) -> None:
    config = config.model_copy(update={"rollouts_per_context": 3, "steps_per_rollout": 5})
    contexts = unguided_contexts("random", 4, pool, ONE)
    found = ScriptedExplorer(world, config).explore(contexts, ONE)
    assert len(found) == len({t.id for t in found}) == 4 * 3 * 5
    assert Counter(Counter(t.rollout_id for t in found).values()) == {5: 12}
    assert Counter(t.context_id for t in found) == {c.id: 15 for c in contexts}
    assert [t.index for t in found[:5]] == [0, 1, 2, 3, 4]
    assert all(t.tools == (t.action.split("(")[0],) for t in found)
    assert found == ScriptedExplorer(world, config).explore(contexts, ONE)
    assert found != ScriptedExplorer(world, config).explore(contexts, Occasion(1, call=1))


def test_focus_steers_and_leaves_room_for_company(world: ToyWorld, config: EvolutionConfig) -> None:
    config = config.model_copy(update={"rollouts_per_context": 100})
    found = ScriptedExplorer(world, config).explore([context("add", "reset")], ONE)
    counts = Counter(t.tools[0] for t in found)
    assert 0.6 < (counts["add"] + counts["reset"]) / len(found) < 0.95
    assert len(counts) == 7
    assert len({t.action for t in found if t.tools == ("add",)}) > 20  # varied parameters


def test_unguided_exploration_follows_the_explorers_own_taste(world: ToyWorld, pool: StartPool) -> None:
    config = EvolutionConfig(rollouts_per_context=300, skew=1.0)
    found = ScriptedExplorer(world, config).explore([context(kind="random")], ONE)
    counts = Counter(t.tools[0] for t in found)
    taste = preferences(pool.tools, 1.0, seed=0)
    for tool, weight in taste.items():
        assert counts[tool] / len(found) == pytest.approx(weight / sum(taste.values()), abs=0.04)
    flat = ScriptedExplorer(world, config).explore([context("add", kind="uniform")], ONE)
    company = Counter(t.tools[0] for t in flat if t.tools != ("add",))
    assert max(company.values()) < 1.5 * min(company.values())


def test_mistakes_are_not_repeated(world: ToyWorld, config: EvolutionConfig) -> None:
    config = config.model_copy(update={"rollouts_per_context": 50})
    free = ScriptedExplorer(world, config).explore([context("reset")], ONE)
    avoided = context("reset", do_not_repeat=("reset( counter = 'cat' )", "not a call at all"))
    steered = ScriptedExplorer(world, config).explore([avoided], ONE)
    assert "reset(counter='cat')" in {t.action for t in free}
    actions = {t.action for t in steered}
    assert "reset(counter='cat')" not in actions
    assert "reset(counter='dog')" in actions


class FragileWorld(ToyWorld):
    """Breaks on "erase" as an environment should, and on starts without values as none should."""

    def open(self, task: Task) -> ToySession:
        if not task.start["values"]:
            raise LookupError("the world would not open")
        session = super().open(task)
        run = session._run

        def fragile(name: str, given: dict[str, Any]) -> str:
            if name == "erase":
                raise EnvironmentFailure("the world fell over")
            return run(name, given)

        session._run = fragile  # type: ignore[method-assign]
        return session


def test_a_broken_rollout_keeps_its_steps_and_sinks_no_other(config: EvolutionConfig) -> None:
    contexts = [
        context("erase", start=START | {"classes": ["values"]}),
        context("add", id="ctx-r1-1", start=START | {"values": {}}),
        context("add", id="ctx-r1-2", start=START | {"classes": ["counters"]}),
    ]
    explorer = ScriptedExplorer(FragileWorld(), config)
    found = explorer.explore(contexts, ONE)
    broken = [t for t in found if t.context_id == "ctx-r1-0" and t.failed]
    assert [t.observation for t in broken] == ["EnvironmentFailure: the world fell over"] * config.rollouts_per_context
    unopened = [t.observation for t in found if t.context_id == "ctx-r1-1"]
    assert unopened == ["LookupError: the world would not open"] * 2
    assert sum(not t.failed for t in found if t.context_id == "ctx-r1-2") == 12
    drafts = explorer.abstract([*found, *triplets("erase(key='ant')", rollout="explore-r1-9")], contexts, ONE)
    assert {draft.context_id for draft in drafts} >= {"ctx-r1-2"}
    assert not any("erase" in call for draft in drafts for turn in draft.solution for call in turn)


# abstract


def abstract(steps: list[Triplet], *focus: str, kind: str = "boundary", **settings: Any) -> list[TaskDraft]:
    explorer = ScriptedExplorer(ToyWorld(), EvolutionConfig(**settings))
    return explorer.abstract(steps, [context(*focus, kind=kind)], ONE)


def test_a_draft_is_what_was_done_in_words() -> None:
    steps = triplets("add(counter='cat', amount=2)", "!erase(key='fox')", "reset(counter='dog')", "total()")
    (draft,) = abstract(steps, min_calls=3, max_calls=3)
    assert draft.solution == (("add(counter='cat', amount=2)", "reset(counter='dog')", "total()"),)
    assert draft.turns[0].replace("please ", "") == "add 2 to cat then reset dog then sum it all up"
    assert (draft.id, draft.context_id, draft.rollout_id) == ("draft-r1-0", "ctx-r1-0", "explore-r1-0")
    assert (draft.origin, draft.explorer, draft.start) == ("feedback", "scripted", START)


def test_calls_that_do_not_work_from_the_start_are_dropped() -> None:
    steps = triplets(
        "put(key='fox', text='red')", "copy(source='ant', target='elk')", "show(key='elk')", "erase(key='fox')"
    )
    assert [draft.solution for draft in abstract(steps, min_calls=2, max_calls=2)] == [
        (tuple(t.action for t in steps[:2]),)
    ]
    assert [len(draft.solution[0]) for draft in abstract(steps, min_calls=4, max_calls=4)] == [4]


def test_with_a_focus_only_windows_that_touch_it_remain() -> None:
    steps = triplets(
        "total()", "show(key='ant')", "add(counter='cat', amount=1)", "total()", "show(key='ant')", "total()"
    )
    drafts = abstract(steps, "add", min_calls=2, max_calls=2)
    assert [draft.solution[0] for draft in drafts] == [("show(key='ant')", "add(counter='cat', amount=1)")]
    assert abstract(steps, "erase", min_calls=1, max_calls=2) == []
    assert len(abstract(steps, min_calls=1, max_calls=1)) == 3


def test_similar_behaviour_is_one_draft() -> None:
    steps = triplets("total()", "total()") + triplets("total()", rollout="explore-r1-1")
    assert [draft.rollout_id for draft in abstract(steps, min_calls=1, max_calls=1)] == ["explore-r1-0"]


def test_user_turns_share_the_calls_in_order() -> None:
    calls = [f"add(counter='cat', amount={n})" for n in range(1, 13)]
    drafts = abstract(triplets(*calls), min_calls=4, max_calls=4, max_turns=3)
    assert len(drafts) == 3
    assert [call for draft in drafts for turn in draft.solution for call in turn] == calls
    assert all(len(draft.turns) == len(draft.solution) <= 3 and all(draft.solution) for draft in drafts)
    assert max(len(draft.turns) for draft in drafts) > 1


@pytest.mark.parametrize(
    ("kind", "origin"),
    [
        ("seed", "seed"),
        ("random", "random"),
        ("uniform", "uniform"),
        ("coverage", "feedback"),
        ("my_signal", "feedback"),
    ],
)
def test_origins(kind: str, origin: str) -> None:
    assert abstract(triplets("total()"), kind=kind, min_calls=1)[0].origin == origin


def test_triplets_of_unknown_contexts_are_left_out() -> None:
    assert abstract([replace(t, context_id="other") for t in triplets("total()")], min_calls=1) == []
