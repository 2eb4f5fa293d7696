"""Memory and time of a run on one GPU from first principles: estimates, never measurements.

    python -m coevolve_lab.estimate configs/bfcl-qwen3-4b.yaml --gpu H100

Every row says in words how it was computed. Lengths are upper bounds: each episode as long as the server allows
(``engine.max_model_len``), nothing shared between the episodes of a group. What is not counted: CUDA contexts,
fragmentation and the gradients of activations (some GiB together), what a sleeping server keeps, and a turn's wait for
its slowest action. For bfloat16.
"""

from __future__ import annotations

from coevolve_lab.config import Config
from coevolve_lab.estimate.durations import GPUS, Gpu, estimate_time, training_flops
from coevolve_lab.estimate.memory import LOGITS_AT_ONCE, activation_bytes, adapted, estimate_memory
from coevolve_lab.estimate.rows import Estimate, comparison, table
from coevolve_lab.estimate.shapes import HALF, SHAPES, Shape, read_shape, shape_of

__all__ = [
    "GPUS",
    "HALF",
    "LOGITS_AT_ONCE",
    "SHAPES",
    "Estimate",
    "Gpu",
    "Shape",
    "activation_bytes",
    "adapted",
    "comparison",
    "estimate",
    "estimate_memory",
    "read_shape",
    "shape_of",
    "table",
    "training_flops",
]


def estimate(config: Config, gpu: Gpu) -> list[Estimate]:
    """Rows of memory, then of time. Raises ConfigError for what cannot be estimated (``shape_of``, ``adapted``)."""
    memory = estimate_memory(config, gpu.name, gpu.gib)
    return [*memory, *estimate_time(config, gpu, shape_of(config.policy.model, config.policy.revision), memory)]
