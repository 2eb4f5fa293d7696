"""Where the AppWorld package and its worlds live, and how they get there.

AppWorld needs pydantic 1 and older web libraries than ours, so it lives in a virtual environment of its own, and
nothing of it is ever imported here: scripts of the folder ``inside`` run with that environment's Python. Beside it lie
the roots of two worlds, each in the package's own layout (``data/tasks``, ``data/base_dbs``, ...):

    HOME/venv    Python and the package, its code unpacked
    HOME/mini    the mini world, generated here by ``inside/generate.py``; nothing of it may be passed on
    HOME/real    the benchmark's own data, if it was downloaded
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from coevolve_lab.errors import PrerequisiteError

VERSION = "0.1.3.post1"
HOME_VARIABLE = "COEVOLVE_APPWORLD_HOME"
INSTALL_COMMAND = "coevolve-lab install appworld"
DOWNLOAD_COMMAND = "coevolve-lab install appworld-data"
INSTALL_SECONDS = 1800
GENERATE_SECONDS = 1800  # a minute or two where nothing else runs
DOWNLOAD_SECONDS = 1800

_HERE = Path(__file__).parent
INSIDE = _HERE / "inside"
CONSTRAINTS = _HERE / "constraints.txt"
_FINGERPRINT = "fingerprint.txt"  # in a mini world: of the code that made it


@dataclass(frozen=True)
class AppWorldPackage:
    """An installed package. A root is what the package calls APPWORLD_ROOT: the folder that holds ``data``."""

    python: Path
    mini_root: Path
    real_root: Path

    def root(self, world: str) -> Path:
        """The root of world "mini" or "real".

        Raises PrerequisiteError for "real" when the benchmark's data have not been downloaded.
        """
        if world == "mini":
            return self.mini_root
        if not has_real_data(self):
            raise PrerequisiteError(
                f"the data of the AppWorld benchmark are not in {self.real_root}; with a network, download them with: "
                f"{DOWNLOAD_COMMAND} (the mini world needs no download)"
            )
        return self.real_root


def home() -> Path:
    """The folder that holds (or will hold) all of it: $COEVOLVE_APPWORLD_HOME, else a folder of this Python's prefix.

    Raises PrerequisiteError for a path with "memory" in it: the package takes such a path for a database in memory.
    """
    chosen = os.environ.get(HOME_VARIABLE)
    folder = Path(chosen).absolute() if chosen else Path(sys.prefix) / "share" / "coevolve_lab" / "appworld"
    if "memory" in str(folder):
        raise PrerequisiteError(
            f"AppWorld cannot live in {folder}: it takes any path that contains 'memory' for a database in memory; "
            f"point ${HOME_VARIABLE} at another folder"
        )
    return folder


def find() -> AppWorldPackage:
    """The installed package. Raises PrerequisiteError with the command that installs it, or brings it up to date."""
    package = _at(home())
    if not _has_package(package):
        raise PrerequisiteError(
            f"AppWorld is not installed in {home()}; install it with: {INSTALL_COMMAND} "
            f"(or point ${HOME_VARIABLE} at a folder that has it)"
        )
    if not _has_mini_world(package):
        raise PrerequisiteError(
            f"{package.mini_root} holds no mini world of this version of coevolve_lab; make it with: {INSTALL_COMMAND}"
        )
    return package


def is_installed() -> bool:
    package = _at(home())
    return _has_package(package) and _has_mini_world(package)


def has_real_data(package: AppWorldPackage) -> bool:
    data = package.real_root / "data"
    return (data / "datasets" / "train.txt").is_file() and (data / "tasks").is_dir()


def install() -> Path:
    """Make the environment and the mini world, each unless it is there already. Returns the folder.

    Each part appears complete or not at all; a mini world that older code made is replaced. Raises PrerequisiteError
    with the last words of what failed.
    """
    folder = home()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PrerequisiteError(
            f"{folder} cannot be made ({error}); point ${HOME_VARIABLE} at a folder of yours"
        ) from None
    package = _at(folder)
    if not _has_package(package):
        _install_package(folder)
    if not _has_mini_world(package):
        _generate_mini_world(package)
    return folder


def download() -> Path:
    """Download the benchmark's own data with the package's own command, after ``install``. Returns their root.

    Raises PrerequisiteError when that fails, most often because there is no network.
    """
    package = _at(install())
    if has_real_data(package):
        return package.real_root
    with tempfile.TemporaryDirectory(dir=home(), prefix=".real-") as scratch:
        command = [str(package.python), "-E", "-s", "-m", "appworld.cli", "download", "data", "--root", scratch]
        problem, remedy = "the data of AppWorld could not be downloaded", f"check the network, then: {DOWNLOAD_COMMAND}"
        _run(command, Path(scratch), DOWNLOAD_SECONDS, problem, remedy)
        fresh = AppWorldPackage(package.python, package.mini_root, Path(scratch))
        if not has_real_data(fresh):
            raise PrerequisiteError(f"{problem} (the server gave none); {remedy}")
        _replace(Path(scratch) / "data", package.real_root / "data")
    return package.real_root


def child_environment(root: Path, cache: Path) -> dict[str, str]:
    """Variables for a process of the package: its root, its cache, and nothing of this Python's own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "APPWORLD"))}
    kept.pop("VIRTUAL_ENV", None)
    return {**kept, "APPWORLD_ROOT": str(root), "APPWORLD_CACHE": str(cache), "PYTHONHASHSEED": "0"}


def generator_fingerprint() -> str:
    """Of the code that makes the mini world, and of the package's version."""
    digest = hashlib.sha256(VERSION.encode())
    for path in [INSIDE / "generate.py", *sorted((INSIDE / "mini_world").rglob("*.py"))]:
        digest.update(path.relative_to(INSIDE).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _at(folder: Path) -> AppWorldPackage:
    return AppWorldPackage(folder / "venv" / "bin" / "python", folder / "mini", folder / "real")


def _has_package(package: AppWorldPackage) -> bool:
    libraries = (package.python.parent.parent / "lib").glob("python3*/site-packages")
    return package.python.exists() and any((one / f"appworld-{VERSION}.dist-info").is_dir() for one in libraries)


def _has_mini_world(package: AppWorldPackage) -> bool:
    note = package.mini_root / _FINGERPRINT
    return note.is_file() and note.read_text() == generator_fingerprint()


def _install_package(folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder, prefix=".venv-") as text:
        scratch = Path(text)
        python = scratch / "venv" / "bin" / "python"
        problem = f"AppWorld {VERSION} could not be installed into {folder}"
        remedy = f"check the network and this Python's pip, then: {INSTALL_COMMAND}"
        # Without a pip of its own, which nothing there needs and which takes longer to unpack than all the rest.
        made = [sys.executable, "-m", "venv", "--without-pip", str(scratch / "venv")]
        _run(made, scratch, INSTALL_SECONDS, problem, remedy)
        pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
        wanted = ["--disable-pip-version-check", "--constraint", str(CONSTRAINTS), f"appworld=={VERSION}"]
        _run([*pip, *wanted], scratch, INSTALL_SECONDS, problem, remedy)
        # Unpacks the apps' code, which is encrypted so that crawlers do not find it, and tests that go with the cache.
        unpack = [str(python), "-E", "-s", "-m", "appworld.cli", "install"]
        _run(unpack, scratch, INSTALL_SECONDS, problem, remedy)
        _replace(scratch / "venv", folder / "venv")


def _generate_mini_world(package: AppWorldPackage) -> None:
    with tempfile.TemporaryDirectory(dir=home(), prefix=".mini-") as scratch:
        root = Path(scratch) / "mini"
        command = [str(package.python), "-E", "-s", str(INSIDE / "generate.py"), str(root)]
        _run(command, root, GENERATE_SECONDS, "the mini world could not be made", f"try again: {INSTALL_COMMAND}")
        (root / _FINGERPRINT).write_text(generator_fingerprint())
        _replace(root, package.mini_root)


def _run(command: list[str], root: Path, seconds: float, problem: str, remedy: str) -> None:
    with tempfile.TemporaryDirectory() as cache:
        try:
            done = subprocess.run(
                command,
                cwd=cache,
                env=child_environment(root, Path(cache)),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise PrerequisiteError(f"{problem} (it took longer than {seconds:.0f} s); {remedy}") from None
    if done.returncode != 0:
        ended = "no message" if done.returncode > 0 else f"ended by signal {-done.returncode}"
        words = " | ".join((done.stderr or done.stdout).strip().splitlines()[-3:]) or ended
        raise PrerequisiteError(f"{problem} ({words}); {remedy}")


def _replace(fresh: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.exists():
        old = fresh.with_name("old")
        place.rename(old)
        fresh.rename(place)
        shutil.rmtree(old)
    else:
        fresh.rename(place)


if __name__ == "__main__":
    print(install())
