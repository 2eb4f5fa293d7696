"""Trajectories -> tensors: every common prefix is computed once, and logits exist for sampled tokens only.

A row of a micro-batch is the *trie* of its sequences. A group of K trajectories shares its prompt, and often the first
actions too; each shared token is one node of the trie, sees its ancestors (a 4-D attention mask) and stands at the
position it has in its own sequence. So a row holds no padding between sequences, and a prompt costs once per group, not
K times. Rows of similar length make a micro-batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from coevolve_lab.errors import PolicyError
from coevolve_lab.records import Trajectory

# Logits are made for as many tokens at a time as keep them under this many numbers (256 MB in float32).
_LOGITS_AT_ONCE = 2**26


@dataclass(frozen=True)
class Sequence1D:
    """One trajectory as token ids, and the positions of its sampled tokens. Sampled positions are never 0."""

    ids: tuple[int, ...]
    sampled: tuple[int, ...]
    prompt: int  # number of prompt ids


@dataclass(frozen=True)
class MicroBatch:
    """Rows that go through the model at once. R rows of T tokens, N sampled tokens to predict.

    source: which of the R * T hidden states predicts each sampled token. token: its index in the flat list of the
    sampled tokens of all sequences, in the order in which the sequences were given. lengths: tokens per row.
    """

    input_ids: Tensor  # [R, T]
    position_ids: Tensor  # [R, T]
    attention_mask: Tensor  # [R, 1, T, T], bool: may look at
    source: Tensor  # [N]
    target: Tensor  # [N]
    token: Tensor  # [N]
    lengths: tuple[int, ...]

    def to(self, device: torch.device | str) -> MicroBatch:
        """The same on another device."""
        tensors = {name: value.to(device) for name, value in vars(self).items() if isinstance(value, Tensor)}
        return MicroBatch(**tensors, lengths=self.lengths)


def to_sequence(trajectory: Trajectory) -> Sequence1D:
    """prompt_ids + each step's token_ids (sampled) and reply_ids (not sampled), without the reply to the last action.

    Raises PolicyError when there is no prompt to predict the first action from, or logprobs do not match the ids.
    """
    ids = list(trajectory.prompt_ids)
    if not ids:
        raise PolicyError(f"trajectory {trajectory.id} has no prompt_ids: it cannot be trained on")
    sampled: list[int] = []
    end = len(ids)
    for step in trajectory.steps:
        if len(step.token_ids) != len(step.logprobs):
            raise PolicyError(
                f"trajectory {trajectory.id} has {len(step.token_ids)} sampled ids but {len(step.logprobs)} logprobs"
            )
        sampled += range(len(ids), len(ids) + len(step.token_ids))
        ids += step.token_ids
        end = len(ids) if step.token_ids else end
        ids += step.reply_ids
    return Sequence1D(tuple(ids[:end]), tuple(sampled), len(trajectory.prompt_ids))


def pack(sequences: Sequence[Sequence1D], tokens: int) -> list[MicroBatch]:
    """Micro-batches of at most ``tokens`` tokens, padding included; a longer sequence gets a micro-batch of its own.

    Sequences with the same prompt share rows. Every sampled token of every sequence occurs exactly once.
    """
    starts = np.cumsum([0, *(len(s.sampled) for s in sequences)])
    by_prompt: dict[tuple[int, ...], list[int]] = {}
    for number, sequence in enumerate(sequences):
        if sequence.sampled:
            by_prompt.setdefault(sequence.ids[: sequence.prompt], []).append(number)
    rows: list[_Row] = []
    for members in by_prompt.values():
        row = _Row()
        for number in members:
            if row.ids and len(row.ids) + row.missing(sequences[number]) > tokens:
                rows.append(row)
                row = _Row()
            row.add(sequences[number], int(starts[number]))
        rows.append(row)
    rows.sort(key=lambda r: len(r.ids))
    batches: list[list[_Row]] = []
    for row in rows:
        if batches and (len(batches[-1]) + 1) * len(row.ids) <= tokens:
            batches[-1].append(row)
        else:
            batches.append([row])
    return [_stack(batch) for batch in batches]


def token_logprobs(model: Any, batch: MicroBatch, temperature: float) -> tuple[Tensor, Tensor]:
    """Log-probability of each sampled token at the temperature, and (without gradient) the entropy there: [N], [N].

    The decoder runs on all tokens, the language-model head only on states that predict a sampled token. Raises
    PolicyError for sequences longer than the model's sliding attention window, if it has one.
    """
    base = unwrap(model)
    window = _attention_window(base.config)
    if window is not None and int(batch.position_ids.max()) >= window:
        raise PolicyError(
            f"a trajectory has more than {window} tokens, which {type(base).__name__} sees through a sliding window; "
            "packed rows have none: lower rollout.max_response_tokens or take a model with full attention"
        )
    # As what is added to the scores: of a mask of booleans SDPA would make and keep such a one in every layer.
    seen = batch.attention_mask
    mask = torch.zeros_like(seen, dtype=base.dtype).masked_fill(~seen, torch.finfo(base.dtype).min)
    hidden = base.get_decoder()(
        input_ids=batch.input_ids, position_ids=batch.position_ids, attention_mask=mask, use_cache=False
    ).last_hidden_state
    head = base.get_output_embeddings()
    # Tokens that follow the same prefix share one row of logits.
    states, row = batch.source.unique(return_inverse=True)
    hidden = hidden.flatten(0, 1)[states]
    size = max(1, _LOGITS_AT_ONCE // head.weight.shape[0])
    if len(hidden) <= size:
        logp, entropy = _score(head, hidden, row, batch.target, temperature)
        return logp, entropy
    logp = hidden.new_zeros(len(row), dtype=torch.float32)
    entropy = torch.zeros_like(logp)
    for start in range(0, len(hidden), size):
        here = ((row >= start) & (row < start + size)).nonzero().squeeze(-1)
        # Recomputed in the backward pass: otherwise all slices' logits would live until then.
        part, part_entropy = checkpoint(
            _score, head, hidden[start : start + size], row[here] - start, batch.target[here], temperature,
            use_reentrant=False,
        )  # fmt: skip
        logp = logp.index_copy(0, here, part)
        entropy[here] = part_entropy
    return logp, entropy


def unwrap(model: Any) -> Any:
    """The Hugging Face model inside a peft model (its adapters stay active), or the model itself."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def check_packing(model: Any, tolerance: float | None = None) -> None:
    """Run a packed row and the same sequences one by one; raise PolicyError if the model does not score them alike.

    This is what tells a model that ignores 4-D masks or position ids (or scales its logits in a way of its own) from
    one that can be trained here. tolerance: allowed mean difference of log-probabilities, by default 1e-3 in float32
    and 0.25 in 16 bits, where single unlikely tokens differ by as much.
    """
    base = unwrap(model)
    name = type(base).__name__
    implementation = getattr(base.config, "_attn_implementation", None)
    if implementation not in ("sdpa", "eager"):
        raise PolicyError(
            f"{name} uses {implementation!r} attention, which takes no 4-D masks; "
            "load it with attn_implementation='sdpa'"
        )
    vocabulary = base.get_output_embeddings().weight.shape[0]
    ids = [i % vocabulary for i in range(1, 8)]
    probes = [
        Sequence1D((*ids, *(i % vocabulary for i in tail)), tuple(range(7, 7 + len(tail))), 7)
        for tail in ([11, 12, 13, 14, 15], [21, 22, 23], [11, 12, 33, 34])
    ]
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            (batch,) = pack(probes, tokens=64)
            packed, _ = token_logprobs(model, batch.to(base.device), 1.0)
            packed = torch.empty_like(packed).index_copy(0, batch.token.to(base.device), packed)
            plain = torch.cat([_plain_logprobs(model, probe) for probe in probes])
    except (TypeError, ValueError, RuntimeError) as error:
        raise PolicyError(f"{name} does not run on packed rows (4-D attention mask, position ids): {error}") from error
    finally:
        model.train(training)
    difference = float((packed - plain).abs().mean())
    allowed = tolerance if tolerance is not None else (1e-3 if base.dtype == torch.float32 else 0.25)
    if not difference <= allowed:
        raise PolicyError(
            f"{name} scores packed rows differently from single sequences (log-probabilities differ by "
            f"{difference:.3g}): it does not follow 4-D attention masks and position ids, so it cannot be trained here"
        )


def _attention_window(config: Any) -> int | None:
    """Tokens that a sliding-window layer sees, or None if all layers see everything."""
    kinds = getattr(config, "layer_types", None)
    if kinds is not None and "sliding_attention" not in kinds:
        return None
    return getattr(config, "sliding_window", None)


def _plain_logprobs(model: Any, sequence: Sequence1D) -> Tensor:
    ids = torch.tensor([sequence.ids], device=unwrap(model).device)
    logp = model(input_ids=ids).logits[0, :-1].float().log_softmax(-1)
    at = torch.tensor(sequence.sampled, device=ids.device)
    return logp[at - 1, ids[0, at]]


def _score(head: Any, hidden: Tensor, row: Tensor, target: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """hidden [U, H], row [N] into it, target [N] -> log-probability [N], entropy [N]."""
    logits = head(hidden).float() / temperature
    total = logits.logsumexp(-1)
    logp = logits[row, target] - total[row]
    with torch.no_grad():
        entropy = total - (torch.softmax(logits, -1) * logits).sum(-1)
    return logp, entropy[row]


class _Row:
    """A trie under construction. A node is a token that some sequence's next token is predicted from."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.parents: list[int] = []
        self.positions: list[int] = []
        self.source: list[int] = []
        self.target: list[int] = []
        self.token: list[int] = []
        self._children: dict[tuple[int, int], int] = {}

    def missing(self, sequence: Sequence1D) -> int:
        """How many nodes ``add`` would make."""
        node = -1
        for depth, token in enumerate(sequence.ids[:-1]):
            child = self._children.get((node, token))
            if child is None:
                return len(sequence.ids) - 1 - depth
            node = child
        return 0

    def add(self, sequence: Sequence1D, first_token: int) -> None:
        path = []
        node = -1
        # The last token predicts nothing, so it is no node.
        for position, token in enumerate(sequence.ids[:-1]):
            child = self._children.get((node, token))
            if child is None:
                child = self._children[node, token] = len(self.ids)
                self.ids.append(token)
                self.parents.append(node)
                self.positions.append(position)
            path.append(child)
            node = child
        self.source += [path[at - 1] for at in sequence.sampled]
        self.target += [sequence.ids[at] for at in sequence.sampled]
        self.token += range(first_token, first_token + len(sequence.sampled))


def _stack(rows: Sequence[_Row]) -> MicroBatch:
    width = max(len(row.ids) for row in rows)
    ids = np.zeros((len(rows), width), dtype=np.int64)
    positions = np.zeros_like(ids)
    # A padding token sees itself, for a softmax over nothing is not a number.
    mask = np.broadcast_to(np.eye(width, dtype=bool), (len(rows), width, width)).copy()
    for r, row in enumerate(rows):
        ids[r, : len(row.ids)] = row.ids
        positions[r, : len(row.ids)] = row.positions
        for node, parent in enumerate(row.parents):
            if parent >= 0:
                mask[r, node, : parent + 1] = mask[r, parent, : parent + 1]
    source = [r * width + node for r, row in enumerate(rows) for node in row.source]
    return MicroBatch(
        input_ids=torch.from_numpy(ids),
        position_ids=torch.from_numpy(positions),
        attention_mask=torch.from_numpy(mask).unsqueeze(1),
        source=torch.tensor(source, dtype=torch.long),
        target=torch.tensor([t for row in rows for t in row.target], dtype=torch.long),
        token=torch.tensor([t for row in rows for t in row.token], dtype=torch.long),
        lengths=tuple(len(row.ids) for row in rows),
    )
