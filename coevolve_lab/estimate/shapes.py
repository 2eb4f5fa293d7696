"""Shapes of models: what their sizes follow from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coevolve_lab.errors import ConfigError

HALF = 2  # bytes of a bfloat16


@dataclass(frozen=True)
class Shape:
    """A decoder of Llama's family. feed_forward: of one expert where there are ``experts``.

    head_norms: queries and keys are normalised by head (Qwen3). biases: those of q, k and v (Qwen2).
    """

    source: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    feed_forward: int
    vocabulary: int
    tied: bool
    head_norms: bool
    biases: bool
    experts: int = 0
    experts_per_token: int = 0

    @property
    def linears(self) -> dict[str, tuple[int, int]]:
        """(inputs, outputs) of a layer's linear modules; experts are stacked tensors and no such modules."""
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        found = {"q_proj": (self.hidden, q), "k_proj": (self.hidden, kv), "v_proj": (self.hidden, kv)}
        found["o_proj"] = (q, self.hidden)
        if not self.experts:
            found |= dict.fromkeys(("gate_proj", "up_proj"), (self.hidden, self.feed_forward))
            found["down_proj"] = (self.feed_forward, self.hidden)
        return found

    def layer(self, experts: int) -> int:
        """Parameters of a layer of which so many experts are counted."""
        norms = 2 * self.hidden + 2 * self.head_dim * self.head_norms
        biases = (self.heads + 2 * self.kv_heads) * self.head_dim * self.biases
        feed = experts * 3 * self.hidden * self.feed_forward + self.experts * self.hidden
        return sum(i * o for i, o in self.linears.values()) + norms + biases + feed

    @property
    def parameters(self) -> int:
        """All of them; tied embeddings once."""
        embeddings = (1 if self.tied else 2) * self.vocabulary * self.hidden
        return self.layers * self.layer(self.experts) + embeddings + self.hidden

    @property
    def active(self) -> int:
        """Those that a token is multiplied by in the layers: of experts only the chosen ones, no embeddings."""
        return self.layers * self.layer(self.experts_per_token)

    @property
    def kv_bytes(self) -> int:
        """Keys and values of one token, in bfloat16."""
        return 2 * self.layers * self.kv_heads * self.head_dim * HALF


_QWEN3 = {"head_dim": 128, "vocabulary": 151936, "head_norms": True, "biases": False}
_AT = "the model's config.json as published on huggingface.co/Qwen"
SHAPES = {
    "Qwen/Qwen3-4B-Instruct-2507": Shape(_AT, 2560, 36, 32, 8, feed_forward=9728, tied=True, **_QWEN3),  # type: ignore[arg-type]
    "Qwen/Qwen2.5-7B-Instruct": Shape(_AT, 3584, 28, 28, 4, 128, 18944, 152064, False, False, True),
    "Qwen/Qwen3-30B-A3B-Instruct-2507": Shape(
        _AT, 2048, 48, 32, 4, feed_forward=768, tied=False, experts=128, experts_per_token=8, **_QWEN3  # type: ignore[arg-type]
    ),
}  # fmt: skip


def shape_of(model: str, revision: str | None = None) -> Shape:
    """From the config.json in the model's folder or in the hub's cache, else as published. Nothing is downloaded.

    Raises ConfigError for a model of which neither is there, or of another family.
    """
    if (folder := Path(model).expanduser()).is_dir():
        return read_shape(folder / "config.json")
    from transformers.utils import cached_file

    quiet = {"_raise_exceptions_for_missing_entries": False, "_raise_exceptions_for_connection_errors": False}
    try:
        known = cached_file(model, "config.json", revision=revision, local_files_only=True, **quiet)
    except (OSError, ValueError):  # no name that a hub could have
        known = None
    if known:
        return read_shape(Path(known))
    if model in SHAPES:
        return SHAPES[model]
    raise ConfigError(
        f"the shape of {model!r} is not known here, so nothing can be estimated: download it, or name one of "
        f"{', '.join(SHAPES)}"
    )


def read_shape(file: Path) -> Shape:
    """The shape that a transformers config.json describes. Raises ConfigError when it is none of this family."""
    try:
        tree: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        kind, heads = tree["model_type"], int(tree["num_attention_heads"])
        if kind not in ("llama", "qwen2", "qwen3", "qwen3_moe"):
            raise ConfigError(f"estimates know llama, qwen2, qwen3 and qwen3_moe, and {file} is of a {kind!r}")
        moe = kind == "qwen3_moe"
        return Shape(
            source=str(file),
            hidden=tree["hidden_size"],
            layers=tree["num_hidden_layers"],
            heads=heads,
            kv_heads=tree.get("num_key_value_heads") or heads,
            head_dim=tree.get("head_dim") or tree["hidden_size"] // heads,
            feed_forward=tree["moe_intermediate_size" if moe else "intermediate_size"],
            vocabulary=tree["vocab_size"],
            tied=tree.get("tie_word_embeddings", False),
            head_norms=kind in ("qwen3", "qwen3_moe"),
            biases=kind == "qwen2",
            experts=(tree.get("num_experts") or tree["num_local_experts"]) if moe else 0,
            experts_per_token=tree["num_experts_per_tok"] if moe else 0,
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{file} is no config.json of a causal LM: {error!r}") from error
