from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from coevolve_lab.training import group_advantages, grpo_loss
from coevolve_lab.training.grpo import token_loss, token_weights

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "vectors.json").read_text())


def test_advantages_match_the_vectors() -> None:
    for case in VECTORS["advantages"]:
        made = group_advantages(case["rewards"], case["groups"])
        assert made.tolist() == pytest.approx(case["expected"], abs=1e-9)


def test_loss_matches_the_vectors() -> None:
    names = ("logp", "logp_old", "logp_ref", "advantages", "mask")
    for case in VECTORS["grpo"]:
        tensors = [torch.tensor(case[name], dtype=torch.float64) for name in names]
        options = {name: case[name] for name in ("clip_low", "clip_high", "kl_coef", "normalize")}
        assert float(grpo_loss(*tensors, case["groups"], **options)) == pytest.approx(case["expected_loss"], abs=1e-10)


@pytest.mark.parametrize("kind", [list, np.asarray, lambda x: torch.tensor(x, dtype=torch.float64)])
def test_advantages_take_any_kind_of_array_and_any_labels_in_any_order(kind: Any) -> None:
    made = group_advantages(kind([1.0, 0.0, 0.0, 1.0, 1.0]), ["b", "a", "b", "a", "alone"])
    half = 1 / (2 * (math.sqrt(0.5) + 1e-6))
    assert made.tolist() == pytest.approx([half, -half, -half, half, 0.0], abs=1e-12)


def test_equal_rewards_give_exactly_zero() -> None:
    # The mean of these is not 0.1 in floating point, so a naive formula gives something else.
    assert group_advantages([0.1] * 6, [7] * 6).tolist() == [0.0] * 6
    assert group_advantages([], []).tolist() == []


def test_advantages_refuse_lengths_that_differ() -> None:
    with pytest.raises(ValueError, match="groups"):
        group_advantages([1.0, 0.0], [0])


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_advantages_refuse_rewards_that_are_not_finite(bad: float) -> None:
    # nan compares with nothing, so its group would pass for one of equal rewards
    with pytest.raises(ValueError, match="number 2 is not"):
        group_advantages([1.0, 0.0, bad, 1.0], [0, 0, 1, 1])


def _case(seed: int = 0, rows: int = 6, width: int = 5) -> dict[str, Any]:
    random = torch.Generator().manual_seed(seed)
    logp, change, shift = (torch.randn(rows, width, generator=random, dtype=torch.float64) for _ in range(3))
    return {
        "logp": logp - 2,
        "logp_old": logp - 2 + 0.4 * change,
        "logp_ref": logp - 2 + 0.3 * shift,
        "advantages": torch.randn(rows, generator=random, dtype=torch.float64),
        "mask": (torch.rand(rows, width, generator=random) < 0.7).double(),
        "groups": ["x", "y", "x", "z", "y", "z"],
    }


def _in_plain_python(case: dict[str, Any], normalize: str, kl_coef: float) -> float:
    """Equation 1 written out once more, token by token."""
    per_group: dict[str, list[float]] = {}
    for b, group in enumerate(case["groups"]):
        for t in range(case["mask"].shape[1]):
            if not case["mask"][b, t]:
                continue
            new, old, ref = (float(case[name][b, t]) for name in ("logp", "logp_old", "logp_ref"))
            advantage = float(case["advantages"][b])
            ratio = math.exp(new - old)
            gain = min(ratio * advantage, max(0.8, min(1.28, ratio)) * advantage)
            kl = math.exp(ref - new) - (ref - new) - 1
            per_group.setdefault(group, []).append(-gain + kl_coef * kl)
    if normalize == "batch":
        values = [v for tokens in per_group.values() for v in tokens]
        return sum(values) / len(values)
    return sum(sum(tokens) / len(tokens) for tokens in per_group.values()) / len(per_group)


@pytest.mark.parametrize("normalize", ["group", "batch"])
@pytest.mark.parametrize("kl_coef", [0.0, 0.05])
def test_loss_is_the_plain_formula(normalize: str, kl_coef: float) -> None:
    for seed in range(5):
        case = _case(seed)
        loss = grpo_loss(**case, normalize=normalize, kl_coef=kl_coef)
        assert float(loss) == pytest.approx(_in_plain_python(case, normalize, kl_coef), abs=1e-12)


@pytest.mark.parametrize("normalize", ["group", "batch"])
def test_what_is_masked_out_has_no_influence_even_if_not_finite(normalize: str) -> None:
    case = _case()
    clean = case["logp"].clone().requires_grad_()
    expected = grpo_loss(**{**case, "logp": clean}, normalize=normalize)
    expected.backward()
    dirty = case["logp"].masked_fill(case["mask"] == 0, -math.inf).requires_grad_()
    old = case["logp_old"].masked_fill(case["mask"] == 0, math.nan)
    loss = grpo_loss(**{**case, "logp": dirty, "logp_old": old}, normalize=normalize)
    loss.backward()
    assert torch.equal(loss, expected)
    assert torch.equal(dirty.grad, clean.grad)


@pytest.mark.parametrize("normalize", ["group", "batch"])
def test_a_group_without_action_tokens_is_no_group(normalize: str) -> None:
    case = _case()
    keep = torch.tensor([g != "y" for g in case["groups"]])
    without = {k: v[keep] for k, v in case.items() if k != "groups"} | {"groups": ["x", "x", "z", "z"]}
    case["mask"][~keep] = 0
    assert float(grpo_loss(**case, normalize=normalize)) == pytest.approx(
        float(grpo_loss(**without, normalize=normalize)), abs=1e-15
    )


def test_an_empty_mask_gives_zero_and_a_zero_gradient() -> None:
    case = _case()
    logp = case["logp"].clone().requires_grad_()
    loss = grpo_loss(**{**case, "logp": logp, "mask": torch.zeros_like(logp)})
    loss.backward()
    assert loss.item() == 0.0
    assert not logp.grad.any()


def test_loss_takes_lists_bool_masks_and_no_reference_without_kl() -> None:
    case = _case()
    as_lists = {k: v.tolist() if isinstance(v, torch.Tensor) else v for k, v in case.items()}
    assert float(grpo_loss(**as_lists)) == float(grpo_loss(**case))
    assert float(grpo_loss(**{**case, "mask": case["mask"].bool()})) == float(grpo_loss(**case))
    none = grpo_loss(**{**case, "logp_ref": None}, kl_coef=0.0)
    assert float(none) == float(grpo_loss(**case, kl_coef=0.0))
    with pytest.raises(ValueError, match="logp_ref"):
        grpo_loss(**{**case, "logp_ref": None})


def test_advantages_may_be_given_by_token() -> None:
    case = _case(rows=6, width=6)  # as many tokens as rows: what a wrong broadcast would not notice
    by_token = case["advantages"].unsqueeze(-1).expand(6, 6).masked_fill(case["mask"] == 0, math.nan)
    assert float(grpo_loss(**{**case, "advantages": by_token})) == float(grpo_loss(**case))


@pytest.mark.parametrize("name", ["logp_old", "logp_ref", "mask", "advantages", "importance"])
def test_shapes_that_would_be_broadcast_are_refused(name: str) -> None:
    case = _case() | {"importance": torch.ones(6, 5)}
    for shape in ((5,), (6, 1), (1, 5), (1,), ()):
        with pytest.raises(ValueError, match=name):
            grpo_loss(**{**case, name: torch.ones(shape)})


@pytest.mark.parametrize("groups", [["x"], ["x"] * 7])
def test_another_number_of_groups_than_of_rows_is_refused(groups: list[str]) -> None:
    with pytest.raises(ValueError, match="6 rows of tokens"):
        grpo_loss(**{**_case(), "groups": groups})


def test_importance_weighs_the_clipped_term_only_and_is_a_constant() -> None:
    case, weight = _case(), torch.full((6, 5), 0.5, dtype=torch.float64, requires_grad=True)
    policy, kl = (float(grpo_loss(**case, kl_coef=c)) for c in (0.0, 0.05))
    loss = grpo_loss(**{**case, "logp": case["logp"].clone().requires_grad_()}, kl_coef=0.05, importance=weight)
    assert loss.item() == pytest.approx(0.5 * policy + (kl - policy), abs=1e-12)
    loss.backward()
    assert weight.grad is None
    dirty = weight.detach().masked_fill(case["mask"] == 0, math.nan)
    assert float(grpo_loss(**case, kl_coef=0.05, importance=dirty.tolist())) == loss.item()


def test_kl_gradient_is_not_multiplied_by_the_ratio() -> None:
    case = _case()
    logp = case["logp"].clone().requires_grad_()
    loss = grpo_loss(**{**case, "logp": logp, "advantages": torch.zeros(6)}, kl_coef=1.0, normalize="batch")
    loss.backward()
    expected = case["mask"] * (1 - torch.exp(case["logp_ref"] - case["logp"])) / case["mask"].sum()
    assert torch.allclose(logp.grad, expected, atol=1e-14)


def test_clipping_stops_the_gradient_on_the_right_side_only() -> None:
    old = torch.zeros(4, dtype=torch.float64)
    logp = torch.log(torch.tensor([1.29, 1.29, 0.79, 0.79], dtype=torch.float64)).requires_grad_()
    advantages = torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=torch.float64)
    token_loss(logp, old, None, advantages, kl_coef=0.0).sum().backward()
    assert (logp.grad == 0).tolist() == [True, False, False, True]


def test_unknown_normalisation_is_an_error() -> None:
    with pytest.raises(ValueError, match="'group' or 'batch'"):
        token_weights(torch.ones(1, 1), [0], "token")
