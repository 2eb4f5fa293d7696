"""Diversity and relevance round by round."""

from __future__ import annotations

import numpy as np
import pytest

from coevolve_lab.evaluation import max_similarity, relative_energy_distance, self_redundancy
from coevolve_lab.evaluation.growth import NEIGHBOURS, SCHEMA, embedded, growth
from coevolve_lab.records import Task


def task(name: str, query: str, round: int = 0) -> Task:
    return Task(name, "bfcl", (query,), {}, round=round)


TASKS = [task(f"a{i}", f"move file{i}.txt into docs") for i in range(8)]
TASKS += [task(f"b{i}", f"book a flight number {i} to Rome", 2) for i in range(7)]
TASKS += [task("c", "post a tweet about nothing", 3)]
TARGETS = [task(f"t{i}", f"move picture{i}.png into photos") for i in range(6)]
FOUND = embedded(TASKS, TARGETS, "words")


def test_every_round_in_which_tasks_entered_has_a_row() -> None:
    rows = growth(FOUND)
    assert rows.schema == SCHEMA
    assert rows.select("round", "tasks", "new").rows() == [(0, 8, 8), (2, 15, 7), (3, 16, 1)]


def test_values_are_those_of_the_equations_on_the_new_tasks_and_on_all() -> None:
    row = growth(FOUND).row(1, named=True)
    new, held, targets = FOUND.vectors[8:15], FOUND.vectors[:15], FOUND.targets
    assert row["sr_new"] == pytest.approx(self_redundancy(new, NEIGHBOURS))
    assert row["sr_all"] == pytest.approx(self_redundancy(held, NEIGHBOURS))
    for estimator in ("v", "u"):
        made = [relative_energy_distance(targets, part, estimator) for part in (new, held)]
        assert [row[f"ed_rel_{estimator}_new"], row[f"ed_rel_{estimator}_all"]] == pytest.approx(made)
    assert row["max_similarity_new"] == pytest.approx(max_similarity(new, targets).mean())


def test_tasks_like_the_targets_are_nearer_to_them() -> None:
    rows = growth(FOUND)
    assert rows["max_similarity_new"][0] > rows["max_similarity_new"][1]
    assert rows["ed_rel_u_new"][0] < rows["ed_rel_u_new"][1]


def test_too_few_tasks_for_a_value_give_none() -> None:
    last = growth(FOUND).row(2, named=True)
    assert (last["sr_new"], last["ed_rel_u_new"]) == (None, None)
    assert last["ed_rel_v_new"] is not None
    bare = growth(embedded(TASKS, [], "words")).row(0, named=True)
    assert (bare["ed_rel_v_all"], bare["max_similarity_new"]) == (None, None)


def test_all_that_the_user_says_is_embedded() -> None:
    two = Task("m", "bfcl", ("move a.txt", "into docs"), {})
    found = embedded([two, task("n", "move a.txt into docs")], [], "words")
    assert np.allclose(found.vectors[0], found.vectors[1])
