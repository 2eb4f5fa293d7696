"""Proof that a server serves the trainer's weights: both score one fixed text, and the scores are compared.

The text itself is scored as a prompt, which reads no prefix cache and knows no temperature. So the server also samples
the token after it, as it samples in rollouts, and that token's log-probability is compared too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from coevolve_lab.errors import BackgroundError
from coevolve_lab.policy.chat import ChatFormat

TEMPERATURE = 0.5  # away from 1, where log-probabilities before and after temperature are the same
PROMPT = "Say what you see."
TEXT = (
    "Proof of arrival: list the files of this folder, copy report.txt to /tmp/2024 and say 'done' when 17 of 23 are "
    "there; otherwise write down which ones are missing."
)


@dataclass(frozen=True)
class Proof:
    """A fixed text as ids, and what the trainer's model gives ``ids[start:]``: log-probabilities at temperature 1.

    following: for each token of the vocabulary, as the one after the text, at ``TEMPERATURE``.
    """

    ids: tuple[int, ...]
    start: int
    logprobs: tuple[float, ...]
    following: tuple[float, ...]


def proof_ids(chat: ChatFormat) -> tuple[list[int], int]:
    """The fixed text in a model's own tokens, as an action after a short prompt, and where the action begins."""
    prompt = chat.prompt(PROMPT, [])
    return [*prompt, *chat.action(TEXT)], len(prompt)


def prove(model: Any, ids: Sequence[int], start: int) -> Proof:
    """The trainer's side of a proof, computed with the model as it is now."""
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            logits = model(torch.tensor([list(ids)], device=model.device)).logits[0, start - 1 :].float()
    finally:
        model.train(was_training)
    chosen = torch.tensor(list(ids[start:]), device=logits.device)
    logprobs = logits[:-1].log_softmax(-1).gather(1, chosen[:, None])[:, 0]
    following = (logits[-1] / TEMPERATURE).log_softmax(-1)
    return Proof(tuple(ids), start, tuple(logprobs.tolist()), tuple(following.tolist()))


def check_proof(
    version: int,
    proof: Proof,
    observed: Sequence[float],
    tolerance: float,
    before: Proof | None = None,
    noise: float = 0.0,
) -> None:
    """Raise BackgroundError unless the server's log-probabilities are this version's and not those of the one before.

    noise: the gap at which the version before had arrived. A change of the trainer's own log-probabilities below four
    times that cannot be told from rounding, and is not asked for: learning rates are small, and bfloat16 is coarse.
    """
    gap = largest_gap(observed, proof.logprobs)
    if not gap <= tolerance:  # a gap that is no number is no proof
        raise BackgroundError(
            f"version {version} did not arrive at the server: its log-probabilities of a fixed text differ from the "
            f"trainer's by {gap:.3g}, more than engine.proof_tolerance ({tolerance:.3g})"
        )
    if before is None or before.ids != proof.ids:
        return
    moved = largest_gap(proof.logprobs, before.logprobs)
    if moved > 4 * noise and largest_gap(observed, before.logprobs) < gap:
        raise BackgroundError(
            f"the server still serves the version before {version}: its log-probabilities of a fixed text are nearer "
            f"to the old ones than to the new ones, which are {moved:.3g} away"
        )


def check_sampled(version: int, proof: Proof, token: int, logprob: float, tolerance: float) -> None:
    """Raise BackgroundError unless a token that was sampled after the text is scored as the trainer scores it."""
    gap = abs(logprob - proof.following[token]) if token < len(proof.following) else float("inf")
    if not gap <= tolerance / TEMPERATURE:
        raise BackgroundError(
            f"what the server samples from version {version} has other log-probabilities than the trainer's (a gap of "
            f"{gap:.3g} at temperature {TEMPERATURE}): a server that is joined has to be started with --logprobs-mode "
            "processed_logprobs"
        )


def largest_gap(some: Sequence[float], others: Sequence[float]) -> float:
    """The largest difference of two texts' scores, token by token."""
    gaps = [abs(a - b) for a, b in zip(some, others, strict=True)]
    return math.nan if any(map(math.isnan, gaps)) else max(gaps, default=0.0)
