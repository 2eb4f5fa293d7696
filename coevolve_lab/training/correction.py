"""Truncated importance weights: what a trained token counts when its sampler was not quite the policy that is trained.

A server that samples in another implementation or precision (vLLM), or one update behind, draws from mu, while the
trainer computes pi_old itself; equation 1 of the paper takes the two for one. Weighting by pi_old / mu puts that right
on average, and cutting the weight at a cap bounds the variance: truncated importance sampling (E. Ionides, 2008), for
this gap by F. Yao, L. Liu et al., "On the Rollout-Training Mismatch in Modern RL Systems" (NeurIPS 2025 workshop paper;
https://fengyao.notion.site/off-policy-rl). As in TRL, the weight is a constant, nothing being differentiated through
it, on the policy term and not on the KL term, and nothing bounds it from below.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def importance_weights(
    logp_trainer: Tensor, logp_sampler: Tensor, owner: Tensor, level: str, cap: float
) -> tuple[Tensor, Tensor]:
    """min(pi_old / mu, cap) of each sampled token, and whether the cap cut it. All [N], without gradient.

    owner: the trajectory of each token, as a number; all tokens of a trajectory must be there. level "token": the
    token's own quotient, of low variance and biased, for it leaves out the tokens before. "sequence": the product over
    the trajectory's sampled tokens, the same for all of them, unbiased but for the cap; its logarithm grows with the
    trajectory's length, so that long ones end at the cap or near 0. Raises ValueError for another level.
    """
    if level not in ("token", "sequence"):
        raise ValueError(f"importance weights are per 'token' or per 'sequence', not {level!r}")
    difference = logp_trainer.detach() - logp_sampler.detach()
    if level == "sequence":
        _, trajectory = owner.unique(return_inverse=True)
        sums = difference.new_zeros(int(trajectory.max()) + 1 if len(trajectory) else 0)
        difference = sums.index_add(0, trajectory, difference)[trajectory]
    # Cut before the exponential, which a long trajectory's sum can overflow.
    return torch.exp(difference.clamp(max=math.log(cap))), difference > math.log(cap)
