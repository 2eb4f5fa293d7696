"""Supervised steps on action tokens: the inner loop of a warm start."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence

import torch

from coevolve_lab.errors import PolicyError
from coevolve_lab.training.packing import unwrap

Example = tuple[Sequence[int], Sequence[int]]
MakeOptimizers = Callable[[torch.nn.Module, float], list[torch.optim.Optimizer]]  # of a model, with a learning rate

# Batches are cut from runs of this many batches' examples, sorted by length.
_BUCKET = 16


def muon_and_adamw(model: torch.nn.Module, learning_rate: float) -> list[torch.optim.Optimizer]:
    """Muon for the matrices inside the blocks, AdamW for embeddings and norms: fewer steps to the same loss than AdamW
    alone (``benchmarks/warm_start.py``)."""
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    hidden = [p for name, p in named if p.ndim == 2 and "embed" not in name and "lm_head" not in name]
    others = [p for name, p in named if not any(p is h for h in hidden)]
    optimizers: list[torch.optim.Optimizer] = []
    if hidden:
        optimizers.append(torch.optim.Muon(hidden, learning_rate, weight_decay=0.0, adjust_lr_fn="match_rms_adamw"))
    if others:
        optimizers.append(torch.optim.AdamW(others, learning_rate, betas=(0.9, 0.99), weight_decay=0.0))
    return optimizers


def supervised_steps(
    model: torch.nn.Module, examples: Sequence[Example], steps: int, batch: int, learning_rate: float, seed: int,
    until: float | None = None, progress: Callable[[int, int, float], None] | None = None,
    make_optimizers: MakeOptimizers = muon_and_adamw,
) -> list[float]:  # fmt: skip
    """Train in place for ``steps`` steps of ``batch`` examples; returns each step's loss (nats per action token).

    examples: (ids, mask) with mask 1 on the tokens to learn; position 0 cannot be learned and is skipped. The learning
    rate warms up over 2 % of the steps and falls along a cosine to a tenth. until: keep the rate constant instead, and
    stop early once the loss, averaged over about 20 steps, is below this. Same seed, same result on one machine and
    number of threads. progress is called with (steps done, steps, loss). Raises PolicyError with nothing to learn.
    """
    usable = [(list(ids), list(mask)) for ids, mask in examples if any(mask[1:])]
    if steps and not usable:
        raise PolicyError("no example has a token to learn: check that the masks mark the action tokens")
    device = next(model.parameters()).device
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizers = make_optimizers(model, learning_rate)
    batches = _batches(usable, batch, random.Random(seed))
    losses: list[float] = []
    average = 0.0
    was_training = model.training
    model.train()
    try:
        for step in range(steps):
            for group in (g for optimizer in optimizers for g in optimizer.param_groups):
                group["lr"] = learning_rate * _schedule(step, steps, falls=until is None)
            loss = _loss(model, next(batches), device)
            model.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            for optimizer in optimizers:
                optimizer.step()
            losses.append(float(loss.detach()))
            if progress is not None:
                progress(step + 1, steps, losses[-1])
            average = losses[-1] if step == 0 else 0.95 * average + 0.05 * losses[-1]
            if until is not None and average < until:
                break
    finally:
        model.train(was_training)
        model.zero_grad(set_to_none=True)
    return losses


def _schedule(step: int, steps: int, falls: bool) -> float:
    warmup = max(1, steps // 50)
    if step < warmup:
        return (step + 1) / warmup
    if not falls:
        return 1.0
    done = (step - warmup) / max(1, steps - warmup)
    return 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * done))


def _batches(
    examples: Sequence[tuple[list[int], list[int]]], batch: int, rng: random.Random
) -> Iterator[list[tuple[list[int], list[int]]]]:
    """Endless batches of examples of similar length, in random order; a pass leaves out what fills no batch."""
    size = min(batch, len(examples))
    order = list(range(len(examples)))
    while True:
        rng.shuffle(order)
        for start in range(0, len(order), _BUCKET * size):
            bucket = sorted(order[start : start + _BUCKET * size], key=lambda i: len(examples[i][0]))
            cuts = [bucket[i : i + size] for i in range(0, len(bucket) - size + 1, size)]
            rng.shuffle(cuts)
            for cut in cuts:
                yield [examples[i] for i in cut]


def _loss(
    model: torch.nn.Module, examples: Sequence[tuple[list[int], list[int]]], device: torch.device
) -> torch.Tensor:
    """Mean cross-entropy of the learned tokens of one batch. Padding stands on the right, unseen by a causal model."""
    width = max(len(ids) for ids, _ in examples)
    ids = torch.tensor([row + [0] * (width - len(row)) for row, _ in examples], device=device)
    mask = torch.tensor([row + [0] * (width - len(row)) for _, row in examples], device=device) != 0
    base = unwrap(model)
    hidden = base.get_decoder()(input_ids=ids[:, :-1], use_cache=False).last_hidden_state
    learned = mask[:, 1:]
    logits = base.get_output_embeddings()(hidden[learned]).float()
    return torch.nn.functional.cross_entropy(logits, ids[:, 1:][learned])
