"""Finding, installing and refusing an AppWorld that is not, or not wholly, there."""

from __future__ import annotations

from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from coevolve_lab.environments.appworld import package
from coevolve_lab.errors import PrerequisiteError


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv(package.HOME_VARIABLE, str(tmp_path / "home"))
    return tmp_path / "home"


def test_an_absent_package_names_the_command_that_installs_it(home: Path) -> None:
    assert not package.is_installed()
    with pytest.raises(PrerequisiteError, match="coevolve-lab install appworld "):
        package.find()


def test_a_path_that_the_package_would_misread_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(package.HOME_VARIABLE, str(tmp_path / "in-memory"))
    with pytest.raises(PrerequisiteError, match=r"'memory'.*COEVOLVE_APPWORLD_HOME"):
        package.install()


def test_a_failed_installation_leaves_nothing_and_tells_pips_words(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "VERSION", "0.0.0")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(PrerequisiteError, match=r"could not be installed.*appworld==0\.0\.0.*install appworld"):
        package.install()
    assert list(home.iterdir()) == []


def test_a_child_sees_nothing_of_this_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    monkeypatch.setenv("APPWORLD_REMOTE", "set")
    monkeypatch.setenv("VIRTUAL_ENV", "/venv")
    environment = package.child_environment(tmp_path, tmp_path / "cache")
    assert not {"PYTHONPATH", "APPWORLD_REMOTE", "VIRTUAL_ENV"} & environment.keys()
    assert (environment["APPWORLD_ROOT"], environment["APPWORLD_CACHE"]) == (str(tmp_path), str(tmp_path / "cache"))


@pytest.fixture
def borrowed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A home whose parts are those of the installation that the tests run with."""
    real, home = package.home(), tmp_path / "home"
    home.mkdir()
    for part in ("venv", "mini"):
        (home / part).symlink_to(real / part)
    monkeypatch.setenv(package.HOME_VARIABLE, str(home))
    return home


@pytest.mark.appworld
def test_a_mini_world_of_other_code_counts_as_none(borrowed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = borrowed / "venv" / "bin" / "python"
    assert package.find() == package.AppWorldPackage(python, borrowed / "mini", borrowed / "real")
    monkeypatch.setattr(package, "generator_fingerprint", lambda: "of newer code")
    assert not package.is_installed()
    with pytest.raises(PrerequisiteError, match=r"no mini world of this version.*coevolve-lab install appworld"):
        package.find()


@pytest.mark.appworld
def test_the_real_world_is_used_where_its_data_are(borrowed: Path) -> None:
    found = package.find()
    assert found.root("mini") == borrowed / "mini"
    with pytest.raises(PrerequisiteError, match="coevolve-lab install appworld-data"):
        found.root("real")
    (borrowed / "real").symlink_to(borrowed / "mini")  # has the same layout
    assert found.root("real") == borrowed / "real"


@pytest.mark.appworld
def test_a_download_without_a_network_says_so(borrowed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")  # where nobody listens
    with pytest.raises(PrerequisiteError, match=r"could not be downloaded.*install appworld-data"):
        package.download()
    assert {path.name for path in borrowed.iterdir()} == {"mini", "venv"}


@pytest.mark.appworld
def test_the_installed_versions_are_those_that_were_tried_together() -> None:
    libraries = [str(path) for path in (package.home() / "venv" / "lib").glob("python3*/site-packages")]
    installed = {canonicalize_name(one.name): one.version for one in distributions(path=libraries)}
    pinned = [Requirement(line) for line in package.CONSTRAINTS.read_text().splitlines()]
    assert {"appworld", "pydantic", "fastapi", "freezegun", "sqlmodel"} <= {one.name for one in pinned}
    assert not [str(one) for one in pinned if installed.get(canonicalize_name(one.name)) not in one.specifier]
