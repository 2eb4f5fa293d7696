"""Plain log-likelihood of action tokens, exactly as sampled: the gradient of filtered imitation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coevolve_lab.records import Trajectory
from coevolve_lab.training.packing import pack, to_sequence, token_logprobs


def backward_likelihood(model: Any, trajectories: Sequence[Trajectory], tokens_at_once: int) -> dict[str, float]:
    """Add the gradient of the mean negative log-likelihood, at temperature 1, to the parameters' ``.grad``.

    The mean is over all action tokens, so it does not depend on how they are split into micro-batches of
    ``tokens_at_once`` tokens. Returns the loss (nats a token), the mean entropy and the number of tokens.
    """
    sequences = [to_sequence(t) for t in trajectories]
    tokens = sum(len(s.sampled) for s in sequences)
    device = next(model.parameters()).device
    loss = entropy = 0.0
    for micro in pack(sequences, tokens_at_once):
        logp, spread = token_logprobs(model, micro.to(device), 1.0)
        part = -logp.sum() / tokens
        part.backward()
        loss += float(part.detach())
        entropy += float(spread.sum()) / tokens
    return {"loss": loss, "entropy": entropy, "tokens": float(tokens)}
