from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from coevolve_lab.training.batch import select

Make = Callable[..., Any]


def test_every_group_has_one_fate_and_is_counted(make_trajectories: Make) -> None:
    trajectories = make_trajectories(
        {"mixed": [1.0, 0.0], "failed": [0.2, 0.2], "solved": [0.5, 0.5], "small": [1.0], "large": [1.0, 0.0, 0.0]}
    )
    batch = select(trajectories, group_size=2)
    assert [t.group_id for t in batch.trained] == ["mixed", "mixed"]
    assert (batch.groups, batch.trained_groups, batch.all_failed, batch.all_solved, batch.dropped) == (5, 1, 1, 1, 2)


def test_the_order_of_arrival_does_not_matter(make_trajectories: Make) -> None:
    trajectories = make_trajectories({"a": [1.0, 0.0], "b": [0.0, 1.0]})
    mixed = [trajectories[i] for i in (0, 2, 1, 3)]
    assert [t.id for t in select(mixed, 2).trained] == ["a-0", "a-1", "b-0", "b-1"]


def test_reward_leaves_out_what_was_not_the_agents_doing(make_trajectories: Make) -> None:
    good, bad = make_trajectories({"a": [1.0, 0.0]})
    batch = select([good, dataclasses.replace(bad, status="engine_error")], 2)
    assert batch.reward == 1.0
    assert (batch.trained, batch.dropped) == ((), 1)
    assert select([], 2).reward == 0.0


def test_a_group_without_a_single_action_carries_no_gradient(make_trajectories: Make) -> None:
    silent = [dataclasses.replace(t, steps=()) for t in make_trajectories({"a": [1.0, 0.0]})]
    assert select(silent, 2).dropped == 1
