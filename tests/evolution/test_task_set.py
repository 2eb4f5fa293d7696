from __future__ import annotations

from collections import Counter

import pytest

from coevolve_lab.evolution import TaskSet
from coevolve_lab.records import Task, Verdict


def tasks(n: int, origin: str = "seed") -> list[Task]:
    return [Task(f"{origin}-{i}", "toy", ("q",), {"n": i}, (("f()",),), origin=origin) for i in range(n)]  # type: ignore[arg-type]


def verdict(task: Task | None, outcome: str = "accepted", name: str = "v") -> Verdict:
    return Verdict(name, "d", outcome, "solved", 1, task=task)  # type: ignore[arg-type]


def test_only_accepted_tasks_enter_and_only_once() -> None:
    known = TaskSet(tasks(2))
    new, retained = tasks(2, "feedback")
    assert known.append([verdict(new), verdict(retained, "retained"), verdict(None, "discarded")]) == [new]
    assert known.append([verdict(new)]) == []
    assert [t.id for t in known] == ["seed-0", "seed-1", "feedback-0"]
    assert known.counts() == {"seed": 2, "feedback": 1}
    assert "feedback-0" in known
    assert known["feedback-0"] == new
    assert len(known) == 3


def test_an_id_never_changes_its_task() -> None:
    known = TaskSet(tasks(1))
    with pytest.raises(ValueError, match="seed-0"):
        known.append([verdict(Task("seed-0", "toy", ("another",), {}))])
    assert known["seed-0"].turns == ("q",)


def test_a_batch_follows_from_its_seed_only() -> None:
    known = TaskSet(tasks(50))
    visits = {f"seed-{i}": i % 3 for i in range(50)}
    assert known.sample(20, 1, visits, 0.25) == known.sample(20, 1, dict(reversed(visits.items())), 0.25)
    assert known.sample(20, 1, visits, 0.25) != known.sample(20, 2, visits, 0.25)


def test_revisits_take_their_share_and_the_least_tried_the_rest() -> None:
    known = TaskSet(tasks(40))
    visits = {f"seed-{i}": 1 + i % 4 for i in range(20)}
    batch = known.sample(16, 3, visits, 0.25)
    assert len({task.id for task in batch}) == 16
    assert sum(task.id in visits for task in batch) == 4
    all_tried = {f"seed-{i}": (1 if i < 10 else 9) for i in range(40)}
    batch = known.sample(10, 3, all_tried, 0.0)
    assert {task.id for task in batch} == {f"seed-{i}" for i in range(10)}


def test_revisits_are_spread_over_all_tried_tasks() -> None:
    known, visits = TaskSet(tasks(40)), {f"seed-{i}": 1 for i in range(20)}
    drawn = Counter(t.id for seed in range(200) for t in known.sample(8, seed, visits, 0.5) if t.id in visits)
    assert len(drawn) == 20
    assert max(drawn.values()) < 3 * min(drawn.values())


def test_missing_revisits_are_filled_with_new_tasks_and_the_other_way_round() -> None:
    known = TaskSet(tasks(10))
    assert len({t.id for t in known.sample(10, 0, {"seed-1": 1}, 0.9)}) == 10
    assert len({t.id for t in known.sample(10, 0, {f"seed-{i}": 1 for i in range(10)}, 0.0)}) == 10


def test_a_small_set_repeats_evenly_and_an_empty_one_is_refused() -> None:
    drawn = Counter(t.id for t in TaskSet(tasks(3)).sample(8, 0))
    assert sorted(drawn.values()) == [2, 3, 3]
    with pytest.raises(ValueError, match="seed_tasks"):
        TaskSet().sample(1, 0)
