"""Invented runs of one small experiment, with one run missing; shared by all tests of results and outputs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coevolve_lab.experiments.declaration import FOLDER, Experiment, load
from coevolve_lab.experiments.plan import Plan, expand
from coevolve_lab.experiments.results import Results, collect
from tests.conftest import ROOT
from tests.experiments.invented import invent

CONFIGS = ROOT / FOLDER
ARMS: dict[str, Any] = {
    "fixed": {"method": "grpo"},
    "uniform": {"method": "uniform_append"},
    "feedback": {
        "method": "coevolve",
        "elsewhere": {"messages": {"set": {"environment": {"options": {"classes": ["MessageAPI"]}}}}},
    },
}
EXPERIMENT = Experiment.model_validate(
    {
        "name": "small",
        "title": "A small question",
        "arms": ARMS,
        "environments": {"here": {"of": "bfcl", "initial": {"environment": {"options": {"held_out_tasks": 8}}}}},
        "scales": {"smoke": {"splits": ["validation"]}},
        "outputs": ["scores", "gains"],
        "notes": "Invented, to see the page.",
    }
)
AFTER = {"fixed": 0.4, "uniform": 0.7, "feedback": 0.9}


@pytest.fixture(scope="session")
def plan() -> Plan:
    """Three arms, three seeds."""
    return expand(EXPERIMENT, "smoke", CONFIGS, seeds=[0, 1, 2])


@pytest.fixture(scope="session")
def runs(plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the plan's runs: uniform's run with seed 2 is missing."""
    folder = tmp_path_factory.mktemp("invented")
    missing = [cell.key for cell in plan.cells if (cell.arm, cell.seed) == ("uniform", 2)]
    invent(plan, folder, AFTER, missing)
    return folder


@pytest.fixture(scope="session")
def found(plan: Plan, runs: Path) -> Results:
    return collect(plan, runs, "words")


def written(folder: Path, text: str) -> Experiment:
    """An experiment from a file of its own in ``folder``, with one scale, "small", of two seeds."""
    (folder / "mine.yaml").write_text(text)
    (folder / "scales.yaml").write_text(
        f"small: {{about: for this test, environments: {{bfcl: {CONFIGS.parent / 'bfcl-smoke.yaml'}}}, seeds: [0, 1]}}"
    )
    return load("mine", folder)


def as_if(plan: Plan, compares: str, rows: dict[str, str]) -> Plan:
    """The same runs as rows of a table of the paper, in the column "bfcl"."""
    arms = {
        name: arm.model_copy(update={"row": rows.get(name), "column": "bfcl"})
        for name, arm in plan.experiment.arms.items()
    }
    return replace(plan, experiment=plan.experiment.model_copy(update={"compares": compares, "arms": arms}))
