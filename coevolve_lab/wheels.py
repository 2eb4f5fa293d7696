"""Wheels whose files are wanted but not their dependencies, each in a folder of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from coevolve_lab.errors import PrerequisiteError

INSTALL_SECONDS = 600


def install_apart(folder: Path, wheels: Sequence[str], is_there: Callable[[Path], bool], command: str) -> Path:
    """Install ``wheels`` without dependencies into ``folder`` with this Python's pip, unless ``is_there(folder)``.

    The folder appears complete or not at all. command: what a user types to try again. Returns the folder. Raises
    PrerequisiteError with pip's last words when pip fails.
    """
    if is_there(folder):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as scratch:
        fresh = Path(scratch) / folder.name
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(fresh), *wheels]
        try:
            done = subprocess.run(pip, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise PrerequisiteError(
                f"pip took longer than {INSTALL_SECONDS} s to install {wheels[0]}; try again: {command}"
            ) from None
        if done.returncode != 0 or not is_there(fresh):
            words = " | ".join(done.stderr.strip().splitlines()[-3:]) or "no message"
            raise PrerequisiteError(
                f"pip could not install {wheels[0]} into {folder} ({words}); "
                f"check the network and this Python's pip, then: {command}"
            )
        if folder.exists():  # left by an interrupted or foreign installation: what was wanted is not in it
            shutil.rmtree(folder)
        fresh.rename(folder)
    return folder
