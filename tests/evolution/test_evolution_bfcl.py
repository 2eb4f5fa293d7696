"""Stages 2 and 3 on the real benchmark classes: three of them, and all eight."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from coevolve_lab.config import EvolutionConfig
from coevolve_lab.environments.bfcl.api import CLASSES
from coevolve_lab.environments.bfcl.environment import BFCLEnvironment
from coevolve_lab.evolution import (
    Guard,
    Occasion,
    StartPool,
    TaskSet,
    make_explorer,
    plan_contexts,
    unguided_contexts,
    validate_drafts,
)
from coevolve_lab.evolution.calls import solution_tools
from coevolve_lab.records import Signal, Trajectory, from_dict, to_dict

CONFIG = EvolutionConfig(contexts_per_round=24, min_calls=1, max_calls=2)


@pytest.fixture(scope="module")
def bfcl() -> BFCLEnvironment:
    return BFCLEnvironment(explore_starts=64, held_out_tasks=60)


@pytest.fixture(scope="module")
def guard(bfcl: BFCLEnvironment) -> Guard:
    return Guard.from_config(CONFIG, bfcl.tasks("test") + bfcl.tasks("held_out"))


@pytest.fixture(scope="module")
def seeded(bfcl: BFCLEnvironment, guard: Guard) -> TaskSet:
    """D_0: unguided exploration, validated."""
    explorer, occasion, known = make_explorer("scripted", bfcl, CONFIG), Occasion(0), TaskSet()
    contexts = unguided_contexts("seed", 24, StartPool(bfcl), occasion, explorer.name)
    drafts = explorer.abstract(explorer.explore(contexts, occasion), contexts, occasion)
    known.append(validate_drafts(drafts, bfcl, guard, known, occasion, limit=40))
    return known


def test_seeds_are_solvable_marked_and_no_copies_of_evaluation_tasks(bfcl: BFCLEnvironment, seeded: TaskSet) -> None:
    assert seeded.counts() == {"seed": 40}
    assert {(task.explorer, task.start["pool"]) for task in seeded} == {("scripted", "train")}
    queries = {task.turns for split in ("test", "held_out") for task in bfcl.tasks(split)}
    assert not queries & {task.turns for task in seeded}
    for task in seeded:
        session = bfcl.open(task)
        for action in (*task.solution[0], "Done."):
            _, done = session.step(action)
            assert not session.last_failed
        assert done
        assert session.score() == 1.0


def test_a_task_leads_back_to_the_policy_whose_weakness_it_is_about(
    bfcl: BFCLEnvironment,
    guard: Guard,
    seeded: TaskSet,
    group: Callable[..., list[Trajectory]],
    mark: Callable[..., Signal],
) -> None:
    tasks = list(seeded)[:8]
    runs = [run for n, task in enumerate(tasks) for run in group(task, [(task.solution[0], 1.0), ((), 0.0)], number=n)]
    signals = [mark(run, "boundary") for run in runs if run.score == 0]
    explorer, occasion = make_explorer("scripted", bfcl, CONFIG), Occasion(1)
    contexts = plan_contexts(explorer, CONFIG, StartPool(bfcl), occasion, signals, runs, tasks)
    triplets = explorer.explore(contexts, occasion)
    drafts = explorer.abstract(triplets, contexts, occasion)
    verdicts = validate_drafts(drafts, bfcl, guard, seeded, occasion, limit=30)
    new = TaskSet(seeded).append(verdicts)
    assert len(new) == 30

    by_id: dict[str, Any] = {r.id: r for r in (*verdicts, *drafts, *contexts, *signals, *runs)}
    assert len(by_id) == len([*verdicts, *drafts, *contexts, *signals, *runs])
    rollouts = Counter(t.rollout_id for t in triplets)
    from_signals = 0
    for task in new:
        draft = by_id[str(task.draft_id)]
        context = by_id[draft.context_id]
        assert rollouts[draft.rollout_id] > 0
        assert set(solution_tools(task.solution)) & set(context.focus_pattern)
        if context.kind == "coverage":
            continue
        from_signals += 1
        signal = by_id[context.signal_id]
        trajectory = by_id[signal.trajectory_id]
        assert (trajectory.policy_version, trajectory.task_id) == (7, context.task_id)
        assert set(context.focus_pattern) <= set(solution_tools(seeded[trajectory.task_id].solution))
    assert 15 < from_signals < 30
    for record in (new[0], drafts[0], contexts[0], triplets[0], verdicts[0]):
        assert from_dict(type(record), to_dict(record)) == record


def test_uniform_exploration_of_all_eight_classes_reaches_almost_every_tool(guard: Guard) -> None:
    world = BFCLEnvironment(classes=tuple(CLASSES), classes_per_start=2, explore_starts=64, held_out_tasks=0)
    pool = StartPool(world)
    config = CONFIG.model_copy(update={"mode": "uniform", "contexts_per_round": len(pool.tools)})
    explorer, occasion, known = make_explorer("scripted", world, config), Occasion(1), TaskSet()
    contexts = plan_contexts(explorer, config, pool, occasion)
    drafts = explorer.abstract(explorer.explore(contexts, occasion), contexts, occasion)
    known.append(validate_drafts(drafts, world, guard, known, occasion, limit=3 * len(pool.tools)))
    assert len(pool.tools) > 120
    assert len(known) == 3 * len(pool.tools)
    reached = {tool for task in known for tool in solution_tools(task.solution)}
    assert len(reached) >= 0.97 * len(pool.tools)


def test_lax_drafts_are_caught_on_the_real_judge(bfcl: BFCLEnvironment, guard: Guard, seeded: TaskSet) -> None:
    explorer, occasion = make_explorer("scripted", bfcl, CONFIG), Occasion(5)
    contexts = unguided_contexts("random", 6, StartPool(bfcl), occasion)
    good = explorer.abstract(explorer.explore(contexts, occasion), contexts, occasion)[0]
    wrong = replace(
        good, id="wrong", solution=(("rm(file_name='no such file')",),), turns=("remove what is not there",)
    )
    hostile = replace(
        good, id="hostile", solution=(("__import__('os').system('true')",),), turns=("break out of here",)
    )
    copied = replace(good, id="copied", turns=bfcl.tasks("held_out")[0].turns, solution=(("pwd()",),))
    verdicts = validate_drafts([good, wrong, hostile, copied], bfcl, guard, seeded, occasion)
    assert [v.outcome for v in verdicts] == ["accepted", "retained", "discarded", "discarded"]
    assert [v.reason for v in verdicts] == ["solved", "failed_call", verdicts[2].reason, "leak"]
    assert verdicts[2].reason in ("failed_call", "unsolved")
