"""GRPO (section 3.1, equation 1): group-relative advantages and the clipped token loss, nothing else.

Differs from the paper, where equation 1 leaves a choice open:
- the standard deviation is the sample's (ddof 1), with eps added to it (veRL's), and equal rewards give exactly 0;
- the KL estimate is k3, exp(d) - d - 1 with d = log pi_ref - log pi, per token, not multiplied by the ratio;
- ``normalize="group"`` is equation 1 per group and then the mean over groups; ``"batch"`` is veRL's token mean;
- both are over the groups given. The trainer gives those that carry a gradient (``batch.select``), so that groups of
  equal rewards are missing from the denominators too, and with them their share of the KL term.

Beyond the paper, and off unless ``importance`` is given: equation 1's pi_old is both what sampled and what the ratio is
taken against. Where these two differ (training.importance, see ``correction``), logp_old is the trainer's own, and each
token's clipped term, not its KL term, is multiplied by its importance weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def group_advantages(rewards: Any, groups: Any, eps: float = 1e-6) -> Tensor:
    """(R - mean) / (std + eps) within each group. rewards, groups: [B] -> [B].

    Groups may be any labels in any order. A group of equal rewards, or of one trajectory, gets 0. Tensors keep their
    dtype and device; anything else is read as float64. Raises ValueError on rewards that are not finite, which would
    spoil their group without a word, and on another number of groups than of rewards.
    """
    given = rewards if isinstance(rewards, Tensor) else torch.as_tensor(rewards, dtype=torch.float64)
    values = given.double()
    index, count = _group_index(groups, values.device)
    if index.shape != values.shape:
        raise ValueError(f"{tuple(values.shape)} rewards, but {tuple(index.shape)} groups")
    if not values.isfinite().all():
        raise ValueError(f"rewards must be finite numbers; number {int((~values.isfinite()).nonzero()[0])} is not")
    advantages = torch.zeros_like(values)
    for group in range(count):
        members = index == group
        own = values[members]
        if own.min() < own.max():
            advantages[members] = (own - own.mean()) / (own.std(correction=1) + eps)
    return advantages.to(given.dtype) if given.is_floating_point() else advantages


def token_loss(
    logp: Tensor, logp_old: Tensor, logp_ref: Tensor | None, advantages: Tensor,
    clip_low: float = 0.2, clip_high: float = 0.28, kl_coef: float = 1e-3, importance: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """-min(r A, clip(r, 1 - clip_low, 1 + clip_high) A) * importance + kl_coef * k3, per token. All of one shape.

    ``logp_ref`` may be None when kl_coef is 0; without ``importance`` every token counts 1.
    """
    ratio = torch.exp(logp - logp_old)
    loss = -torch.minimum(ratio * advantages, ratio.clamp(1 - clip_low, 1 + clip_high) * advantages)
    if importance is not None:
        loss = loss * importance
    if kl_coef == 0:
        return loss
    if logp_ref is None:
        raise ValueError("kl_coef is not 0, so logp_ref is needed")
    return loss + kl_coef * k3(logp, logp_ref)


def k3(logp: Tensor, logp_ref: Tensor) -> Tensor:
    """Estimate of KL(policy || reference) per token: never negative, unbiased under the policy."""
    d = logp_ref - logp
    return torch.exp(d) - d - 1


def token_weights(mask: Tensor, groups: Any, normalize: str = "group") -> Tensor:
    """What each token's loss is multiplied by before summing. mask: [B, T], 1 on action tokens; groups: [B] -> [B, T].

    group: 1 / (the group's tokens * number of groups); batch: 1 / all tokens. A group without any action token is no
    group: it does not enter the mean. Weights sum to 1, or are all 0 when the mask is empty.
    """
    if normalize == "batch":
        return mask / mask.sum().clamp(min=1)
    if normalize != "group":
        raise ValueError(f"normalize must be 'group' or 'batch', not {normalize!r}")
    index, count = _group_index(groups, mask.device)
    if len(index) != len(mask):
        raise ValueError(f"{len(mask)} rows of tokens, but {len(index)} groups")
    tokens = torch.zeros(count, dtype=mask.dtype, device=mask.device).index_add(0, index, mask.sum(-1))
    weight = torch.where(tokens > 0, 1 / tokens.clamp(min=1), 0) / (tokens > 0).sum().clamp(min=1)
    return mask * weight[index].unsqueeze(-1)


def grpo_loss(
    logp: Any, logp_old: Any, logp_ref: Any, advantages: Any, mask: Any, groups: Any,
    clip_low: float = 0.2, clip_high: float = 0.28, kl_coef: float = 1e-3, normalize: str = "group",
    importance: Any = None,
) -> Tensor:  # fmt: skip
    """Equation 1 as a loss to minimise. logp, logp_old, logp_ref, mask: [B, T]; advantages, groups: [B] -> scalar.

    advantages may be [B, T] too, one a token. importance: [B, T], constant weights of the tokens' clipped terms; None:
    1, as in the paper. Whatever stands where the mask is 0 (padding, prompt and reply tokens, even inf or nan) has no
    influence. Raises ValueError on any other shape: it would be broadcast to a wrong loss.
    """
    logp = logp if isinstance(logp, Tensor) else torch.as_tensor(logp, dtype=torch.float64)

    def like_logp(name: str, value: Any) -> Tensor:
        given = torch.as_tensor(value, dtype=logp.dtype, device=logp.device)
        if name == "advantages" and given.shape == logp.shape[:1]:
            given = given.unsqueeze(-1).expand_as(logp)
        if given.ndim != 2 or given.shape != logp.shape:
            raise ValueError(f"{name} must be [B, T] as logp is, not {tuple(given.shape)} beside {tuple(logp.shape)}")
        return given

    mask = like_logp("mask", mask)
    used = mask != 0
    kept = logp.where(used, 0)
    old = like_logp("logp_old", logp_old).where(used, 0)
    ref = None if logp_ref is None else like_logp("logp_ref", logp_ref).where(used, 0)
    advantage = like_logp("advantages", advantages).where(used, 0)
    weight = None if importance is None else like_logp("importance", importance).detach().where(used, 0)
    loss = token_loss(kept, old, ref, advantage, clip_low, clip_high, kl_coef, weight)
    return (loss * token_weights(mask, groups, normalize)).sum()


def _group_index(groups: Any, device: torch.device) -> tuple[Tensor, int]:
    """Any labels -> (indices 0..G-1 in order of appearance [B], G)."""
    labels: Sequence[Any] = groups.tolist() if hasattr(groups, "tolist") else list(groups)
    numbers: dict[Any, int] = {}
    index = [numbers.setdefault(g.item() if isinstance(g, Tensor) else g, len(numbers)) for g in labels]
    return torch.tensor(index, dtype=torch.long, device=device), len(numbers)
