"""A key-value cache that grows in slabs: a decoding step writes its column instead of copying the whole cache."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

import torch
from transformers import Cache
from transformers.cache_utils import DynamicLayer

SLAB = 128  # columns added when the buffer is full


class SlabLayer(DynamicLayer):
    """One layer's keys and values, [batch, heads, columns, head_dim], in a buffer with room to spare."""

    def __init__(self) -> None:
        super().__init__()
        self.columns = 0
        self.key_slab = torch.empty(0)
        self.value_slab = torch.empty(0)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append [batch, heads, new, head_dim]; returns views of everything cached so far."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
            self.key_slab = key_states.new_empty((*key_states.shape[:2], 0, key_states.shape[3]))
            self.value_slab = value_states.new_empty((*value_states.shape[:2], 0, value_states.shape[3]))
        end = self.columns + key_states.shape[2]
        if end > self.key_slab.shape[2]:
            self.key_slab = _grown(self.key_slab, self.columns, end + SLAB)
            self.value_slab = _grown(self.value_slab, self.columns, end + SLAB)
        self.key_slab[:, :, self.columns : end] = key_states
        self.value_slab[:, :, self.columns : end] = value_states
        self.columns = end
        return self._show()

    def take_rows(self, rows: torch.Tensor) -> SlabLayer:
        """A layer of its own that holds copies of these batch rows."""
        taken = SlabLayer()
        taken.dtype, taken.device, taken.is_initialized = self.key_slab.dtype, self.key_slab.device, True
        taken.columns = self.columns
        taken.key_slab = self.key_slab.index_select(0, rows)
        taken.value_slab = self.value_slab.index_select(0, rows)
        taken._show()
        return taken

    def put_rows(self, rows: torch.Tensor, taken: SlabLayer) -> None:
        """Append the columns that ``take_rows(rows)`` has gained since; they are zero in all other rows."""
        new = slice(self.columns, taken.columns)
        shape = (self.key_slab.shape[0], self.key_slab.shape[1], taken.columns - self.columns, self.key_slab.shape[3])
        keys, values = self.key_slab.new_zeros(shape), self.value_slab.new_zeros(shape)
        keys[rows], values[rows] = taken.key_slab[:, :, new], taken.value_slab[:, :, new]
        self.update(keys, values)

    def get_seq_length(self) -> int:
        return self.columns

    def _show(self) -> tuple[torch.Tensor, torch.Tensor]:
        self.keys = self.key_slab[:, :, : self.columns]
        self.values = self.value_slab[:, :, : self.columns]
        return self.keys, self.values


class CachedRows:
    """A batch of growing token sequences, a row each, whose keys and values are kept.

    A row only sees its own real tokens: columns that were added for other rows are masked out, and positions count real
    tokens only, so neither padding nor neighbours change what a row predicts.
    """

    def __init__(self, model: Any, cache: Cache, mask: torch.Tensor, fed: torch.Tensor) -> None:
        self.model = model
        self.cache = cache
        self.mask = mask  # [rows, columns] bool: real tokens
        self.fed = fed  # [rows]: number of real tokens

    @classmethod
    def empty(cls, model: Any, rows: int) -> CachedRows:
        """No token fed yet."""
        cache = Cache(layers=[SlabLayer() for _ in range(model.config.get_text_config().num_hidden_layers)])
        mask = torch.zeros(rows, 0, dtype=torch.bool, device=model.device)
        return cls(model, cache, mask, torch.zeros(rows, dtype=torch.long, device=model.device))

    def forward(self, ids: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
        """Feed [rows, new] tokens, of which ``real`` count; returns the last logits, [rows, vocabulary] float32."""
        positions = (self.fed[:, None] + real.cumsum(1) - 1).clamp(min=0)
        self.mask = torch.cat([self.mask, real], dim=1)
        out = self.model(
            input_ids=ids,
            attention_mask=self.mask,
            position_ids=positions,
            use_cache=True,
            logits_to_keep=1,
            **{_cache_argument(self.model): self.cache},
        )
        self.fed = self.fed + real.sum(1)
        return out.logits[:, -1].float()

    def take(self, rows: torch.Tensor) -> CachedRows:
        """Copies of these rows, in this order, that can be fed on their own."""
        cache = Cache(layers=[layer.take_rows(rows) for layer in self.cache.layers])
        return CachedRows(self.model, cache, self.mask[rows], self.fed[rows])

    def put(self, rows: torch.Tensor, taken: CachedRows) -> None:
        """Give back what ``take(rows)`` was fed since."""
        for layer, other in zip(self.cache.layers, taken.cache.layers, strict=True):
            layer.put_rows(rows, other)
        new = self.mask.new_zeros(len(self.mask), taken.mask.shape[1] - self.mask.shape[1])
        new[rows] = taken.mask[:, self.mask.shape[1] :]
        self.mask = torch.cat([self.mask, new], dim=1)
        self.fed[rows] = taken.fed


@cache
def _cache_argument_of(forward: Any) -> str:
    return "cache" if "cache" in inspect.signature(forward).parameters else "past_key_values"


def _cache_argument(model: Any) -> str:
    """What forward calls its cache: renamed in transformers 5."""
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    return _cache_argument_of(type(base).forward)


def _grown(slab: torch.Tensor, used: int, columns: int) -> torch.Tensor:
    larger = slab.new_zeros((slab.shape[0], slab.shape[1], columns, slab.shape[3]))
    larger[:, :, :used] = slab[:, :, :used]
    return larger
