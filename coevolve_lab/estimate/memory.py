"""Bytes: of the trainer at work and at rest, and of what samples beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coevolve_lab.config import Config
from coevolve_lab.errors import ConfigError
from coevolve_lab.estimate.rows import GIB, Estimate
from coevolve_lab.estimate.shapes import HALF, Shape, shape_of

FULL = 4  # bytes of a float32: what is trained, with its gradient, whatever the model's dtype is
LOGITS_AT_ONCE = 2**26  # training/packing.py makes logits in slices of so many numbers
_SERVER_OWN = 2  # GiB that a server takes for its own activations and graphs


def adapted(config: Config, shape: Shape) -> dict[str, tuple[int, int]]:
    """The linear modules of a layer that get an adapter; none without ``policy.lora``.

    Raises ConfigError where experts would get one, or where a named module does not exist.
    """
    if config.policy.lora is None:
        return {}
    names = config.policy.lora.target_modules
    if names == "all-linear":
        if shape.experts:
            raise ConfigError(
                "policy.lora.target_modules 'all-linear' puts adapters on experts too, which is not estimated and "
                "which no vLLM server was seen to take: name q_proj, k_proj, v_proj and o_proj"
            )
        return shape.linears
    if unknown := [name for name in names if name not in shape.linears]:
        raise ConfigError(f"policy.lora.target_modules: a layer has no {', '.join(unknown)}")
    return {name: shape.linears[name] for name in names}


def activation_bytes(shape: Shape, modules: Mapping[str, tuple[int, int]], rank: int | None) -> int:
    """What autograd keeps of one token in one layer without recomputation, the attention mask apart.

    As Hugging Face's layers and peft's are written, with SDPA; tests count what autograd really keeps, on a CPU.
    """
    h, f, k = shape.hidden, shape.feed_forward, shape.experts_per_token
    q, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    kept = 2 * (FULL * h + FULL)  # both norms work on a float32 copy
    kept += (FULL * (q + kv) + FULL * (shape.heads + shape.kv_heads)) * shape.head_norms
    kept += 4 * HALF * q + FULL * shape.heads  # queries, keys and values (repeated for every head), output
    kept += k * HALF * (3 * f + h) + FULL * shape.experts + 34 * k if shape.experts else 3 * HALF * f
    if rank is not None:  # each adapter makes a float32 copy of its input; frozen weights keep nothing
        return kept + sum(FULL * (inputs + rank) for inputs, _ in modules.values())
    kept += 4 * HALF * h + HALF * (q + kv) * shape.head_norms  # of norms, and inputs that modules share
    return kept + (k * HALF * (f + h) if shape.experts else HALF * f)


def estimate_memory(config: Config, name: str, gib: float) -> list[Estimate]:
    """The rows of memory alone, for any GPU. "left while training" and "left while sampling" are below 0 if it is too
    small. Raises ConfigError as ``estimate`` does."""
    if config.policy.model in ("tiny", "smollm2") or config.policy.dtype != "bfloat16":
        raise ConfigError("estimates are for pretrained models in bfloat16: see policy.model and policy.dtype")
    return _memory(config, name, gib, shape_of(config.policy.model, config.policy.revision))


def _memory(config: Config, gpu: str, gib: float, shape: Shape) -> list[Estimate]:
    lora, engine, longest = config.policy.lora, config.engine, config.engine.max_model_len
    modules, rank = adapted(config, shape), lora.rank if lora else None
    weights = shape.parameters * HALF
    trained = shape.layers * sum(rank * (i + o) for i, o in modules.values()) if rank else shape.parameters
    rest = [_gib("weights", weights, f"{shape.parameters:,} parameters x 2 bytes")]
    if rank:
        how = f"{trained:,} parameters x 4 bytes: rank {rank} x (inputs + outputs) of {len(modules)} modules a layer"
        rest.append(_gib("adapter", trained * FULL, how))
    else:
        rest.append(_gib("trained copy", trained * FULL, "float32 weights, of which the others are roundings"))
        if config.training.kl_coef > 0:
            rest.append(_gib("reference", weights, "a frozen copy of the weights for the KL term"))
    rest.append(_gib("optimizer", 2 * trained * FULL, f"AdamW: two numbers of {FULL} bytes a trained parameter"))
    tokens = max(config.training.tokens_per_microbatch, longest)
    each = activation_bytes(shape, modules, rank)
    kept, how = shape.layers * each, f"{shape.layers} layers x {each:,} bytes: nothing is recomputed"
    if config.policy.recompute:
        kept = HALF * shape.hidden * shape.layers + each
        how = f"({shape.layers} layers x {HALF * shape.hidden:,} bytes + one layer's {each:,}, made again)"
    longer = "the larger of training.tokens_per_microbatch and engine.max_model_len"
    work = [
        _gib("gradients", trained * FULL, f"{FULL} bytes a trained parameter"),
        _gib("activations", tokens * kept, f"{tokens:,} tokens, {longer}, x {how}"),
        _gib("attention mask", (HALF + 1) * tokens**2, "tokens x tokens of a row: 1 byte as made, 2 bytes as added"),
        _gib("logits", 22 * LOGITS_AT_ONCE, "2^26 at a time: one bfloat16 and five float32 copies with their gradient"),
    ]
    at_rest, at_work = _sum(rest), _sum([*rest, *work])
    rows = [*rest, *work]
    rows.append(Estimate("trainer at rest", at_rest, at_rest, "GiB", " + ".join(row.name for row in rest)))
    rows.append(Estimate("trainer at work", at_work, at_work, "GiB", "all of the rows above"))
    rows.append(
        _one("KV cache of a token", shape.kv_bytes / 1024, "KiB", "2 x layers x KV heads x head size x 2 bytes")
    )
    if engine.kind == "torch":
        shown = f"rollout.concurrency {config.rollout.concurrency} episodes x {longest:,} tokens, in this process"
        sampling = _gib("KV cache", config.rollout.concurrency * longest * shape.kv_bytes, shown)
        rows += [sampling, *_room(gpu, gib, at_work, at_rest + sampling.high)]
        return rows
    share = engine.gpu_memory * gib
    cache = share - weights / GIB - _SERVER_OWN
    rows.append(_one("server", share, "GiB", f"engine.gpu_memory {engine.gpu_memory:g} of {gib:g} GiB"))
    how = f"server - weights - {_SERVER_OWN} GiB for the server's own activations (a guess)"
    rows.append(_one("server's KV cache", cache, "GiB", how))
    if cache <= 0:
        raise ConfigError(
            f"engine.gpu_memory {engine.gpu_memory:g} of {gib:g} GiB leaves the server no room beside the weights "
            f"({weights / GIB:.1f} GiB): raise it, or take a larger GPU"
        )
    fits = int(cache * GIB / shape.kv_bytes / longest)
    rows.append(_one("episodes at once", fits, "", f"server's KV cache / ({longest:,} tokens, none shared)"))
    beside = 0.0 if engine.url else share
    return [*rows, *_room(gpu, gib, at_work + beside * (not engine.sleep), at_rest + beside)]


def _room(gpu: str, gib: float, training: float, sampling: float) -> list[Estimate]:
    note = f"{gib:g} GiB of the {gpu} - "
    return [
        _one("left while training", gib - training, "GiB", f"{note}trainer at work - a server that does not sleep"),
        _one("left while sampling", gib - sampling, "GiB", f"{note}trainer at rest - server or KV cache"),
    ]


def _gib(name: str, size: float, how: str) -> Estimate:
    return _one(name, size / GIB, "GiB", how)


def _one(name: str, value: float, unit: str, how: str) -> Estimate:
    return Estimate(name, value, value, unit, how)


def _sum(rows: Iterable[Estimate]) -> float:
    return sum(row.high for row in rows)
