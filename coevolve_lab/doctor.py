"""Looks at this machine: what is here, what is missing, and the command that brings it."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from coevolve_lab.environments.bfcl import package

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@dataclass(frozen=True)
class Finding:
    """remedy: the command that mends it, "" when there is nothing to mend. needed: the default run fails without it."""

    name: str
    found: str
    remedy: str = ""
    needed: bool = True


def examine() -> list[Finding]:
    """One finding per thing that runs depend on. Imports torch."""
    return [_python(), _torch(), _threads(), *_packages(), _bfcl(), _chromium()]


def _python() -> Finding:
    old = sys.version_info < (3, 11)
    return Finding("python", f"{platform.python_version()} in {sys.prefix}", "install Python 3.11 or newer" * old)


def _torch() -> Finding:
    try:
        import torch
    except ImportError as error:
        return Finding("torch", f"cannot be imported ({error})", "pip install 'coevolve-lab[cpu]'")
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    return Finding("torch", f"{torch.__version__}, runs on {device}")


def _threads() -> Finding:
    cores, set_to = len(os.sched_getaffinity(0)), os.environ.get("OMP_NUM_THREADS")
    note = f"{cores} cores for this process" + (f", OMP_NUM_THREADS={set_to}" if set_to else "")
    too_many = set_to is not None and set_to.isdigit() and int(set_to) > cores
    return Finding("threads", note, f"export OMP_NUM_THREADS={cores}" * too_many, needed=False)


def _packages() -> list[Finding]:
    extras = {
        "transformers": "cpu",
        "peft": "cpu",
        "plotly": "notebook",
        "kaleido": "notebook",
        "jupyterlab": "notebook",
    }
    findings = []
    for name, extra in extras.items():
        try:
            findings.append(Finding(name, version(name), needed=extra == "cpu"))
        except PackageNotFoundError:
            remedy = f"pip install 'coevolve-lab[{extra}]'"
            findings.append(Finding(name, "missing", remedy, needed=extra == "cpu"))
    return findings


def _bfcl() -> Finding:
    folder = package.home()
    if package.is_installed():
        return Finding("bfcl", f"in {folder}")
    return Finding("bfcl", f"not in {folder}", package.INSTALL_COMMAND)


def _chromium() -> Finding:
    found = os.environ.get("BROWSER_PATH") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if found:
        return Finding("chromium", found, needed=False)
    return Finding("chromium", "missing: figures are written as HTML only", "apt-get install chromium", needed=False)
