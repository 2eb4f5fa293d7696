"""Where the unpacked ``bfcl-eval`` package lives, and how it gets there.

Its dependency list pins numpy 1.26 and pulls several vendors' SDKs, none of which the multi-turn classes, data and
checker need. So it is installed without dependencies into a folder of its own, which ``activate`` appends to
``sys.path``: appended, so that it shadows nothing. ``python -m coevolve_lab.environments.bfcl.package`` installs it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from coevolve_lab.errors import PrerequisiteError
from coevolve_lab.wheels import install_apart

REQUIREMENTS = ("bfcl-eval==2026.3.23", "mpmath==1.3.0")  # mpmath: bfcl-eval's own pin, and sympy's range
HOME_VARIABLE = "COEVOLVE_BFCL_HOME"
INSTALL_COMMAND = "coevolve-lab install bfcl"


def home() -> Path:
    """The folder that holds (or will hold) the package: $COEVOLVE_BFCL_HOME, else a folder of this Python's prefix."""
    chosen = os.environ.get(HOME_VARIABLE)
    return Path(chosen) if chosen else Path(sys.prefix) / "share" / "coevolve_lab" / "bfcl"


def is_installed(folder: Path | None = None) -> bool:
    folder = folder or home()
    return (folder / "bfcl_eval" / "data" / "BFCL_v4_multi_turn_base.json").is_file()


def install(target: Path | None = None) -> Path:
    """Install the package, unless it is there already; see ``wheels.install_apart``."""
    return install_apart(target or home(), REQUIREMENTS, is_installed, INSTALL_COMMAND)


def activate() -> Path:
    """Make ``bfcl_eval`` importable and return its data folder.

    Raises PrerequisiteError with the command that installs it.
    """
    folder = home()
    if not is_installed(folder):
        raise PrerequisiteError(
            f"the BFCL benchmark is not installed in {folder}; install it with: {INSTALL_COMMAND} "
            f"(or point ${HOME_VARIABLE} at a folder that has it)"
        )
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    return folder / "bfcl_eval" / "data"


if __name__ == "__main__":
    print(install())
