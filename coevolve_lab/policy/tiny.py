"""The CPU default: a transformer of under a million parameters and its own vocabulary, both made here from nothing.

The architecture is Qwen3's, so that everything that works on it works on the 4B model; the vocabulary is a byte-level
BPE trained on the demonstrations' text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import Qwen3Config, Qwen3ForCausalLM

from coevolve_lab.config import TinyModelConfig

PAD, END, USER, TOOL, AGENT = "<|pad|>", "<|end|>", "<|user|>", "<|tool|>", "<|agent|>"
SPECIALS = [PAD, END, USER, TOOL, AGENT]


def train_tokenizer(corpus: Iterable[str], vocabulary: int) -> Tokenizer:
    """A byte-level BPE of about ``vocabulary`` tokens; words keep their leading space, digits and
    punctuation stand alone, so that a quoted value has the same tokens in a query and in a call."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r" ?[A-Za-z]+|\d| ?[^A-Za-z\d\s]|\s"), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=SPECIALS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    tokenizer.encode_special_tokens = True  # text that spells a special token stays text
    return tokenizer


def build_model(config: TinyModelConfig, vocabulary: int, seed: int) -> Qwen3ForCausalLM:
    """A freshly initialised model; same seed, same weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Qwen3ForCausalLM(
            Qwen3Config(
                vocab_size=vocabulary,
                hidden_size=config.hidden,
                intermediate_size=config.feed_forward,
                num_hidden_layers=config.layers,
                num_attention_heads=config.heads,
                num_key_value_heads=config.heads,
                head_dim=config.hidden // config.heads,
                max_position_embeddings=2048,
                tie_word_embeddings=True,
                bos_token_id=None,
                eos_token_id=SPECIALS.index(END),
                pad_token_id=SPECIALS.index(PAD),
            )
        ).float()


class TinyChat:
    """The tiny model's conversations: role tokens and text. It is told neither tools nor instructions."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.tokenizer.encode_special_tokens = True
        self.pad_id, self._end, self._user, self._tool, self._agent = range(len(SPECIALS))  # as they were trained
        self.end_ids: tuple[int, ...] = (self._end,)

    def prompt(self, observation: str, tools: Sequence[Mapping[str, Any]]) -> list[int]:
        return self.prompt_ids(self._encode(observation))

    def prompt_ids(self, observation: Sequence[int]) -> list[int]:
        """A prompt from ids instead of text."""
        return [self._user, *observation, self._agent]

    def reply(self, observation: str, from_user: bool) -> list[int]:
        return [self._user if from_user else self._tool, *self._encode(observation), self._agent]

    def action(self, text: str) -> list[int]:
        return [*self._encode(text), self._end]

    def text(self, ids: Sequence[int]) -> str:
        kept = ids[:-1] if ids and ids[-1] == self._end else ids
        return str(self.tokenizer.decode(list(kept), skip_special_tokens=False))

    def _encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)
