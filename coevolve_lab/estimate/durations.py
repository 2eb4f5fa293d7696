"""Seconds: arithmetic and memory traffic of a step, at what part of a GPU's peak one may hope for."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from coevolve_lab.config import Config
from coevolve_lab.estimate.rows import GIB, Estimate
from coevolve_lab.estimate.shapes import HALF, Shape

UTILISATION = (0.15, 0.40)  # of the peak arithmetic: packed rows under a dense mask, no kernels of their own
BANDWIDTH = (0.4, 0.8)  # of the peak memory bandwidth while decoding


@dataclass(frozen=True)
class Gpu:
    """gib: what a process finds. tflops: dense bfloat16 at the peak. terabytes: memory bandwidth, TB a second."""

    name: str
    gib: float
    tflops: float
    terabytes: float


GPUS = {  # NVIDIA's data sheets: A100 80GB SXM, H100 SXM, H200 SXM
    "A100": Gpu("A100 80 GB", 79, 312, 2.04),
    "H100": Gpu("H100 80 GB", 79, 989, 3.35),
    "H200": Gpu("H200", 139, 989, 4.8),
}


def training_flops(
    shape: Shape, *, tokens: int, sampled: int, row: int, lora: bool, reference: bool, recompute: bool = False
) -> float:
    """Arithmetic of a GRPO step on so many tokens in rows of ``row`` tokens, ``sampled`` of which are predicted.

    reference: with a forward pass of the reference policy too. A dense mask makes attention compute whole rows.
    """
    again = reference + recompute  # forward passes besides the one that the gradient is of
    weights = 2 + (not lora) + again  # forward, gradient of the inputs, and without adapters of the weights
    # Attention has no weights, but both its factors want a gradient, for which the scores are made once more.
    attention = (3.5 + again) * 4 * shape.layers * shape.heads * shape.head_dim * row * tokens
    head = (3 + (not lora) + reference) * 2 * shape.vocabulary * shape.hidden * sampled  # always made again
    return weights * 2 * shape.active * tokens + attention + head


def estimate_time(config: Config, gpu: Gpu, shape: Shape, memory: Iterable[Estimate]) -> list[Estimate]:
    """Rows of one training step, and of all. memory: how many episodes the server holds at once is read there."""
    rollout, longest = config.rollout, config.engine.max_model_len
    episodes = rollout.tasks_per_step * rollout.group_size
    sampled = min(rollout.max_response_tokens, longest)
    row = max(config.training.tokens_per_microbatch, longest)
    reference, recompute = config.training.kl_coef > 0, config.policy.recompute
    flops = training_flops(
        shape,
        tokens=episodes * longest,
        sampled=episodes * sampled,
        row=row,
        lora=config.policy.lora is not None,
        reference=reference,
        recompute=recompute,
    )
    passes = "forward" + " twice" * recompute + ", backward" + " and the reference's forward" * reference
    how = (
        f"{flops / 1e15:,.0f} PFLOP ({passes}: {episodes * longest:,} tokens x {shape.active / 1e9:.2f}e9 active "
        f"parameters, attention over rows of {row:,}, logits of {episodes * sampled:,} tokens) at "
        f"{_percent(UTILISATION)} of {gpu.tflops:g} TFLOP/s"
    )
    train = _range("training step", flops / gpu.tflops / 1e12, UTILISATION, how)
    fits = next((int(entry.low) for entry in memory if entry.name == "episodes at once"), rollout.concurrency)
    at_once = max(1, min(fits, rollout.concurrency, episodes))
    waves = math.ceil(episodes / at_once)
    reads = shape.parameters * HALF + at_once * longest * shape.kv_bytes
    how = (
        f"{waves} x {at_once} episodes, {sampled:,} tokens one after the other, each reading all weights and "
        f"{at_once} x {longest:,} tokens of KV cache ({reads / GIB:.0f} GiB) at {_percent(BANDWIDTH)} of "
        f"{gpu.terabytes:g} TB/s"
    )
    decode = _range("rollout: decoding", waves * sampled * reads / gpu.terabytes / 1e12, BANDWIDTH, how)
    read = episodes * (longest - sampled)
    how = f"the other {longest - sampled:,} tokens of {episodes} episodes x 2 x active parameters, as in training"
    prefill = _range("rollout: reading", 2 * read * shape.active / gpu.tflops / 1e12, UTILISATION, how)
    steps = config.rounds * config.training.steps_per_round
    low, high = (steps * sum(getattr(r, end) for r in (train, decode, prefill)) / 3600 for end in ("low", "high"))
    whole = f"{config.rounds} rounds x {config.training.steps_per_round} steps; neither evaluation nor exploration"
    return [decode, prefill, train, Estimate("all steps", low, high, "h", whole)]


def _range(name: str, best: float, share: tuple[float, float], how: str) -> Estimate:
    """``best``: seconds at the peak; share: what of the peak is reached, lowest and highest."""
    return Estimate(name, best / share[1], best / share[0], "s", how)


def _percent(share: tuple[float, float]) -> str:
    return f"{share[0]:.0%} to {share[1]:.0%}"
