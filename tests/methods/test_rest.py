from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from coevolve_lab import CoEvolve
from coevolve_lab.methods.rest import THRESHOLDS, improve_steps
from coevolve_lab.records import Trajectory


def grown(groups: int) -> list[Trajectory]:
    one = Trajectory("", "", "", 0, 1, 1, 0.0, "completed", ())
    return [
        dataclasses.replace(one, id=f"{g}-{k}", group_id=f"g{g}", score=k / 2) for g in range(groups) for k in range(3)
    ]


@pytest.mark.parametrize(
    ("updates", "passes"), [(1, [2]), (2, [1, 2]), (3, [0, 1, 2]), (10, [0] * 3 + [1] * 3 + [2] * 4)]
)
def test_the_threshold_rises_from_pass_to_pass(updates: int, passes: list[int]) -> None:
    steps = improve_steps(grown(12), updates, seed=1)
    assert [threshold for threshold, _ in steps] == [THRESHOLDS[number] for number in passes]
    assert list(THRESHOLDS) == sorted(set(THRESHOLDS))


def test_each_pass_goes_once_over_all_groups_and_keeps_them_whole() -> None:
    everything = grown(7)
    steps = improve_steps(everything, 6, seed=1)
    for number in (0, 2, 4):  # two steps a pass
        batches = [{t.group_id for t in part} for _, part in steps[number : number + 2]]
        assert not batches[0] & batches[1]
        parts = [t.id for _, part in steps[number : number + 2] for t in part]
        assert sorted(parts) == sorted(t.id for t in everything)
    assert [t.id for t in steps[0][1]] != [t.id for t in steps[2][1]]
    assert steps == improve_steps(everything, 6, seed=1) != improve_steps(everything, 6, seed=2)


def test_it_samples_and_updates_exactly_as_much_as_grpo(played: Callable[[str], CoEvolve]) -> None:
    query = (
        "select round, count(*) n, count(distinct group_id) g from trajectories where purpose = 'train' "
        "group by round order by round"
    )
    rest, grpo = played("rest"), played("grpo")
    assert rest.sql(query).rows() == grpo.sql(query).rows() != []
    assert (
        rest.sql("select round, count(*) n from updates group by round order by round").rows()
        == grpo.sql("select round, count(*) n from updates group by round order by round").rows()
    )


def test_a_round_imitates_what_one_policy_version_did_well(played: Callable[[str], CoEvolve]) -> None:
    run = played("rest")
    versions = run.sql("select round, policy_version from trajectories where purpose = 'train' group by all order by 1")
    assert versions.rows() == [(1, 0), (2, 2)]
    updates = run.sql("select round, step, trained_tokens, loss, kl, clip_fraction, logprob_gap from updates").rows()
    for round in (1, 2):
        trained = [row[2] for row in updates if row[0] == round]
        # two steps a round: one for each of the two highest thresholds, each over all groups
        for tokens, threshold in zip(trained, THRESHOLDS[1:], strict=True):
            wanted = run.sql(
                f"select sum(n_tokens) from trajectories where purpose = 'train' and round = {round} "
                f"and score > {threshold}"
            ).item()
            assert tokens == wanted > 0
    assert all(loss > 0 and kl == clipped == gap == 0 for _, _, _, loss, kl, clipped, gap in updates)
    assert run.signals().height > 0
