"""Sentence embeddings by any encoder that transformers loads: the mean over token states, at unit length."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from coevolve_lab.errors import PrerequisiteError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def sentence_embeddings(texts: Sequence[str], model: str, batch: int = 64) -> NDArray[np.float32]:
    """float32 [len(texts), d], rows of unit length. model: a folder with an encoder and its tokenizer, or a hub name.

    A hub name is only looked for in the local cache when HF_HUB_OFFLINE is set. Raises PrerequisiteError when torch or
    transformers is missing, or the model cannot be loaded.
    """
    import numpy as np

    tokenizer, encoder = _loaded(model)
    if not texts:
        return np.zeros((0, int(encoder.config.hidden_size)), dtype=np.float32)
    import torch

    by_length = sorted(range(len(texts)), key=lambda index: len(texts[index]))  # a batch is padded to its longest text
    rows = []
    for first in range(0, len(texts), batch):
        chosen = [texts[index] for index in by_length[first : first + batch]]
        tokens = tokenizer(chosen, padding=True, truncation=True, return_tensors="pt")
        with torch.inference_mode():
            states = encoder(**tokens).last_hidden_state  # [batch, tokens, d]
        mask = tokens["attention_mask"].unsqueeze(-1).to(states.dtype)
        means = (states * mask).sum(1) / mask.sum(1).clamp(min=1)
        rows.append(torch.nn.functional.normalize(means, dim=-1).float().numpy())
    return np.concatenate(rows)[np.argsort(by_length)]


@lru_cache(maxsize=1)
def _loaded(model: str) -> tuple[Any, Any]:
    missing = [name for name in ("torch", "transformers") if importlib.util.find_spec(name) is None]
    if missing:
        raise PrerequisiteError(f"sentence embeddings need {' and '.join(missing)}: pip install 'coevolve-lab[cpu]'")
    from transformers import AutoModel, AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(model), AutoModel.from_pretrained(model).eval()
    except (OSError, ValueError) as error:
        words = str(error).strip().splitlines()[0]
        raise PrerequisiteError(f"no sentence-embedding model '{model}': {words}") from None
