from __future__ import annotations

from collections.abc import Callable

import pytest

from coevolve_lab import CoEvolve
from coevolve_lab.methods.curriculum import SPLIT, easiest_first, pool_size
from coevolve_lab.records import Evaluation, Task
from tests.methods.conftest import TESTED


def task(name: str, *turns: int) -> Task:
    """With so many calls in each turn."""
    return Task(name, "toy", ("x",) * len(turns), {}, tuple(("c",) * calls for calls in turns))


def test_easy_tasks_come_first_and_few_calls_break_ties() -> None:
    tasks = [task("hard", 1), task("long", 2, 2), task("easy", 3), task("short", 1, 1), task("later", 1, 1)]
    rates = {"hard": 0.0, "long": 0.5, "easy": 1.0, "short": 0.5, "later": 0.5}
    assert [t.id for t in easiest_first(tasks, rates)] == ["easy", "short", "later", "long", "hard"]
    assert [t.id for t in easiest_first([task("new", 1), *tasks], rates)][-2:] == ["new", "hard"]  # came later


@pytest.mark.parametrize(
    ("tasks", "rounds", "batch", "sizes"),
    [(100, 4, 8, [25, 50, 75, 100]), (10, 3, 4, [4, 7, 10]), (3, 2, 8, [3, 3]), (100, 1, 8, [100])],
)
def test_the_pool_grows_from_the_easiest_quarter_to_all(tasks: int, rounds: int, batch: int, sizes: list[int]) -> None:
    assert [pool_size(tasks, round, rounds, batch) for round in range(1, rounds + 1)] == sizes


def test_a_run_measures_difficulty_once_and_trains_on_the_easiest(played: Callable[[str], CoEvolve]) -> None:
    run = played("curriculum_learning")
    (measured,) = run.reader.records(Evaluation, f"split = '{SPLIT}'")
    assert (measured.policy_version, measured.step, measured.round, measured.tasks) == (0, 0, 1, 9)
    solved = run.sql(
        "select task_id, avg((score >= 1)::int) rate, count(*) n from trajectories "
        f"where purpose = 'evaluate' and group_id like '{SPLIT}-%' group by task_id"
    )
    assert {row["task_id"]: row["rate"] for row in solved.to_dicts()} == measured.outcomes
    assert set(solved["n"]) == {run.config.rollout.group_size}
    assert len(set(measured.outcomes.values())) > 1  # the order is about something
    order = [t.id for t in easiest_first(run.reader.records(Task), measured.outcomes)]
    for round, size in ((1, 3), (2, 9)):
        pool = set(order[:size])
        tried = set(run.sql(f"select task_id from trajectories where purpose = 'train' and round = {round}")["task_id"])
        assert tried <= pool
    assert tried - set(order[:3])  # the second round's pool is larger, and used


def test_the_untrained_policy_is_measured_before_the_first_update_only(played: Callable[[str], CoEvolve]) -> None:
    costs = played("curriculum_learning").sql(
        "select round, items from stage_costs where stage = 'evaluate' order by round, items"
    )
    assert costs.rows() == [(0, TESTED), (1, TESTED), (1, 9 * 4), (2, TESTED)]
