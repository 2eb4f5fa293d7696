"""Model folders as a hub would give them, made here: a small random model, a BPE tokenizer, a ChatML template."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from coevolve_lab.policy.tiny import train_tokenizer

CORPUS = [
    "[copy(source='ant', target='bee')] [show(key='cat')] [add(counter='dog', amount=3)] done ok",
    "You solve the user's request by calling tools. Write one or more calls and nothing else, in this form:",
    "copy ant to bee, erase fox, reset hen, sum it all up please, store red under elk",
]
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def save_model(kind: str, folder: Path) -> Path:
    """``kind``: "llama" (untied embeddings, grouped heads) or "qwen3" (tied embeddings)."""
    raw: Tokenizer = train_tokenizer(CORPUS, 350)
    raw.encode_special_tokens = False
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<|im_end|>", pad_token="<|pad|>")
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    tokenizer.chat_template = CHATML
    tokenizer.save_pretrained(folder)
    size = {"vocab_size": len(tokenizer), "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 4096}
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id, "bos_token_id": None}
    torch.manual_seed(0)
    if kind == "llama":
        LlamaForCausalLM(LlamaConfig(**size, **heads, **ends)).save_pretrained(folder)
    else:
        Qwen3ForCausalLM(Qwen3Config(**size, **heads, **ends, tie_word_embeddings=True)).save_pretrained(folder)
    return folder
