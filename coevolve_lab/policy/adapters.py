"""Weights as immutable folders for a server, named by version and content."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from coevolve_lab.errors import PolicyError
from coevolve_lab.policy.chat import ChatFormat

ADAPTER = "adapter_config.json"  # the file that tells an adapter's folder from a whole model's


def save_weights(model: Any, chat: ChatFormat, parent: Path, version: int) -> Path:
    """The model's present weights in a folder of ``parent``: the adapter if it has one, else the whole model."""
    if hasattr(model, "peft_config"):
        return save_adapter(model, parent, version)
    return save_whole(model, chat, parent, version)


def save_adapter(model: Any, parent: Path, version: int) -> Path:
    """Write a PEFT model's adapter as ``parent/v0007-<hash of its weights>``, complete or not at all.

    Raises PolicyError when anything but plain low-rank matrices is trained (``modules_to_save``, biases, magnitudes):
    vLLM would serve the rest of the change as if it had not happened.
    """
    strays = [n for n, p in model.named_parameters() if p.requires_grad and not {"lora_A", "lora_B"} & {*n.split(".")}]
    whole = [name for config in model.peft_config.values() for name in config.modules_to_save or ()]
    if strays or whole:
        raise PolicyError(
            f"a server takes low-rank matrices only, and this adapter also trains {[*whole, *strays][:3]}: leave out "
            "modules_to_save, biases and magnitudes, or use engine.kind 'torch'"
        )
    return _publish(lambda folder: model.save_pretrained(folder, safe_serialization=True), parent, version)


def save_whole(model: Any, chat: ChatFormat, parent: Path, version: int) -> Path:
    """Write model and tokenizer as a model folder ``parent/v0007-<hash of its weights>``, complete or not at all."""

    def write(folder: Path) -> None:
        model.save_pretrained(folder, safe_serialization=True)
        _save_tokenizer(chat, folder)

    return _publish(write, parent, version)


def keep_only(parent: Path, kept: Iterable[Path]) -> None:
    """Delete the folders that ``save_weights`` made in ``parent``, or began to make, except these."""
    names = {path.name for path in kept}
    for folder in [*parent.glob("v[0-9]*-*"), *parent.glob(".making-*")]:
        if folder.name not in names:
            shutil.rmtree(folder, ignore_errors=True)


def _publish(write: Callable[[Path], None], parent: Path, version: int) -> Path:
    parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=parent, prefix=".making-"))
    try:
        write(made)
        folder = parent / f"v{version:04d}-{_digest(made)}"
        if folder.is_dir():  # the same weights were written before
            return folder
        for file in made.iterdir():
            file.chmod(0o444)
        made.chmod(0o755)  # a server of another user may read it
        os.replace(made, folder)
        return folder
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _digest(folder: Path) -> str:
    """Eight hex digits of the weights."""
    digest = hashlib.sha256()
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise PolicyError(f"the model wrote no safetensors files to {folder}")
    for file in files:
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()[:8]


def _save_tokenizer(chat: ChatFormat, folder: Path) -> None:
    tokenizer = getattr(chat, "tokenizer", None)
    if tokenizer is None:
        raise PolicyError(f"a server needs the model's tokenizer, and {type(chat).__name__} has none")
    if not hasattr(tokenizer, "save_pretrained"):
        from transformers import PreTrainedTokenizerFast

        tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokenizer)
    tokenizer.save_pretrained(folder)
