"""The house stands: imports only go down, one pair of stages at most know each other, heavy packages stay home."""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "coevolve_lab"
FLOORS = [
    {"errors"},
    {"records", "config", "cores", "interrupts", "wheels"},
    {"environments", "signals", "training", "store", "endpoint", "paper", "estimate"},
    {"policy", "evolution", "figures", "background"},
    {"evaluation", "assembly", "review", "exchange"},
    {"run"},
    {"recording"},
    {"stages"},
    {"loop"},
    {"methods", "report"},
    {"demo", "doctor", "experiments"},
    {"widgets", "cli"},
    {"__main__"},
]
STAGES = {"policy", "training", "signals", "evolution"}
MEETING = {("policy", "training")}  # a warm start is training
FLOOR = {unit: height for height, units in enumerate(FLOORS) for unit in units}
# Packages that only these units may import, so that the rest runs without them.
HOMES = {
    "duckdb": {"store"},
    "ipywidgets": {"widgets"},
    "anywidget": {"widgets"},
    "plotly": {"figures", "widgets"},
    "peft": {"policy", "training"},
    "openai": {"endpoint"},
    "vllm": {"policy", "background"},
}
APART = PACKAGE / "environments" / "appworld" / "inside"  # runs with the benchmark's own Python (frames.py in ours too)
SOURCES = sorted(PACKAGE.rglob("*.py"))


def unit_of(path: Path) -> str:
    """The part of the house a file belongs to: its folder or module right below the package."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Every module that a file imports anywhere, with its line; relative imports are resolved."""
    module = ("coevolve_lab", *path.relative_to(PACKAGE).with_suffix("").parts)
    for node in ast.walk(ast.parse(path.read_text(), filename=str(path))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = module[: len(module) - node.level] if node.level else ()
            base = ".".join((*above, *([node.module] if node.module else [])))
            yield base, node.lineno
            yield from ((f"{base}.{alias.name}", node.lineno) for alias in node.names if base == "coevolve_lab")


def third_party(path: Path) -> set[str]:
    names = {name.partition(".")[0] for name, _ in imports(path)}
    return names - set(sys.stdlib_module_names) - {"coevolve_lab"}


def test_every_part_has_a_floor() -> None:
    units = {unit_of(path) for path in SOURCES} - {"__init__"}
    assert units <= FLOOR.keys(), "give the new part a floor above"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_only_go_down(path: Path) -> None:
    unit = unit_of(path)
    if unit == "__init__":  # the front door names what is behind it
        return
    for name, line in imports(path):
        parts = name.split(".")
        if parts[0] != "coevolve_lab" or len(parts) == 1 or parts[1] == unit:
            continue
        assert parts[1] in FLOOR, f"{path.name}:{line}: {parts[1]} is at the front door, above all floors"
        assert FLOOR[parts[1]] < FLOOR[unit], f"{path.name}:{line}: {unit} must not import {parts[1]}"


def test_stages_meet_in_one_place_only() -> None:
    met = {
        (unit_of(path), name.split(".")[1])
        for path in SOURCES
        if unit_of(path) in STAGES
        for name, _ in imports(path)
        if name.startswith("coevolve_lab.") and name.split(".")[1] in STAGES - {unit_of(path)}
    }
    assert met == MEETING


def test_heavy_packages_stay_at_home() -> None:
    strays = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in SOURCES
        for name in third_party(path) & HOMES.keys()
        if unit_of(path) not in HOMES[name]
    ]
    assert not strays


def test_every_import_is_a_declared_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *(line for name in extras if name != "dev" for line in extras[name])]
    declared = {canonicalize_name(Requirement(line).name) for line in lines}
    providers = packages_distributions()
    benchmarks = {"bfcl_eval", "mpmath"}  # installed apart by `coevolve-lab install`
    for path in SOURCES:
        if APART in path.parents:
            continue
        for name in third_party(path) - benchmarks:
            homes = {canonicalize_name(provider) for provider in providers.get(name, [name])}
            assert homes & declared, f"{path.relative_to(ROOT)} imports {name}, which pyproject.toml does not declare"


def test_nothing_evaluates_text() -> None:
    """Design rule 10: what a model wrote is parsed, never run."""
    calls = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"eval", "exec"}
    ]
    assert not calls
