"""Batched sampling in this process, for any Hugging Face causal LM, with the KV cache kept from turn to turn.

Episodes of a wave share one cache, a row each. A turn first feeds what each episode gained since its last action (one
left-padded block), then samples until every row has ended its action.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from coevolve_lab.errors import PolicyError
from coevolve_lab.policy.engine import Completion, Request
from coevolve_lab.policy.kv_cache import CachedRows


class TorchEngine:
    """See ``Engine``. end_ids: any of them ends an action; keep_cache False recomputes every turn (for comparison)."""

    def __init__(self, model: Any, end_ids: Sequence[int], pad_id: int, keep_cache: bool = True) -> None:
        self.model = model
        self.policy_version = 0
        self.keep_cache = keep_cache
        self._end = torch.tensor(sorted(end_ids), device=model.device)
        self._pad = pad_id
        self._clear()

    def generate(self, requests: Sequence[Request], temperature: float, seed: int) -> list[Completion]:
        if not requests:
            return []
        was_training = self.model.training
        self.model.eval()
        try:
            with torch.inference_mode():
                return self._generate(requests, temperature, seed)
        except torch.OutOfMemoryError as error:
            self._clear()
            raise PolicyError(
                f"out of memory while sampling {len(requests)} episodes: lower rollout.concurrency"
            ) from error
        except BaseException:
            self._clear()  # a half-fed cache must never be read again
            raise
        finally:
            self.model.train(was_training)

    def release(self, keys: Iterable[str]) -> None:
        gone = set(keys)
        if gone.issuperset(self._keys):
            self._clear()

    def _clear(self) -> None:
        self._keys: list[str] = []
        self._rows: CachedRows | None = None
        self._version = -1

    def _generate(self, requests: Sequence[Request], temperature: float, seed: int) -> list[Completion]:
        rows = self._align([r.key for r in requests])
        logits = _feed(rows, [list(r.ids) for r in requests], self._pad)
        limits = torch.tensor([r.max_tokens for r in requests], device=logits.device)
        decoder = _Decoder(limits, self._end, self._pad, temperature, seed)
        decoder.run(rows, logits, torch.arange(len(requests), device=logits.device))
        last = set(self._end.tolist())
        return [
            Completion(tuple(ids), tuple(logprobs), bool(ids) and ids[-1] in last)
            for ids, logprobs in zip(decoder.ids, decoder.logprobs, strict=True)
        ]

    def _align(self, keys: list[str]) -> CachedRows:
        """The cached rows of these keys in this order; empty ones when a key is new or the policy changed."""
        known = {key: row for row, key in enumerate(self._keys)}
        stale = not self.keep_cache or self._version != self.policy_version
        if self._rows is None or stale or any(key not in known for key in keys):
            self._rows = CachedRows.empty(self.model, len(keys))
            self._version = self.policy_version
        elif keys != self._keys:
            self._rows = self._rows.take(torch.tensor([known[key] for key in keys], device=self.model.device))
        self._keys = keys
        return self._rows


def _feed(rows: CachedRows, sequences: list[list[int]], pad: int) -> torch.Tensor:
    """Feed each row what it has not seen of its sequence, left-padded: the last column is everyone's last token."""
    blocks = [ids[fed:] for ids, fed in zip(sequences, rows.fed.tolist(), strict=True)]
    width = max(len(block) for block in blocks)
    ids = [[pad] * (width - len(block)) + block for block in blocks]
    real = [[False] * (width - len(block)) + [True] * len(block) for block in blocks]
    device = rows.fed.device
    return rows.forward(torch.tensor(ids, device=device), torch.tensor(real, device=device))


class _Decoder:
    """Samples one action for each row, until each has ended its own."""

    def __init__(self, limits: torch.Tensor, end: torch.Tensor, pad: int, temperature: float, seed: int) -> None:
        self.limits = limits  # [requests]: most tokens of each action
        self.end = end
        self.pad = pad
        self.temperature = temperature
        self.generator = torch.Generator(device=limits.device).manual_seed(seed)
        self.ids: list[list[int]] = [[] for _ in limits]
        self.logprobs: list[list[float]] = [[] for _ in limits]

    def run(self, rows: CachedRows, logits: torch.Tensor, requests: torch.Tensor, step: int = 0) -> None:
        """logits: [rows, vocabulary] of the next token; requests: [rows], which request each row is.

        Once half of the rows have ended, the others go on in a cache of their own: else the longest action of a batch
        would keep all of it computing.
        """
        live = self.limits[requests] > step
        while bool(live.any()):
            token, logprob = _sample(logits, self.temperature, self.generator)
            step += 1
            said = (requests[live].tolist(), token[live].tolist(), logprob[live].tolist())
            for request, one, logp in zip(*said, strict=True):
                self.ids[request].append(one)
                self.logprobs[request].append(logp)
            live = live & ~torch.isin(token, self.end) & (self.limits[requests] > step)
            going = torch.nonzero(live)[:, 0]
            if 0 < len(going) <= len(live) // 2:
                taken = rows.take(going)
                logits = taken.forward(token[going, None], live[going, None])
                self.run(taken, logits, requests[going], step)
                rows.put(going, taken)
                return
            if len(going):
                logits = rows.forward(token[:, None].masked_fill(~live[:, None], self.pad), live[:, None])


def _sample(logits: torch.Tensor, temperature: float, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Token and its log-probability at the temperature, [batch] each; temperature 0 takes the most likely token."""
    if temperature == 0:
        logp = logits.log_softmax(-1)
        token = logits.argmax(-1)
    else:
        logp = (logits / temperature).log_softmax(-1)
        token = torch.multinomial(logp.exp(), 1, generator=generator)[:, 0]
    return token, logp.gather(1, token[:, None])[:, 0]
