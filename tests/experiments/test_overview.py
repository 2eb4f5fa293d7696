"""What a plan would cost is said by what is known of runs like those, and by nothing else."""

from __future__ import annotations

from pathlib import Path

from coevolve_lab.experiments.declaration import load
from coevolve_lab.experiments.overview import costs
from coevolve_lab.experiments.plan import expand
from tests.experiments.conftest import CONFIGS
from tests.experiments.invented import STAGES, invent


def test_a_run_of_another_method_or_environment_measures_nothing(tmp_path: Path) -> None:
    plan = expand(load("table3", CONFIGS), "tiny", CONFIGS, seeds=[0, 1])
    grpo, later = (cell for cell in plan.cells if cell.method == "grpo")
    invent(plan, tmp_path, {}, missing=[cell.key for cell in plan.runs if cell.key != grpo.key])
    rows = {row["run"]: row for row in costs(plan, tmp_path).iter_rows(named=True)}
    assert rows[grpo.key]["state"] == "finished"
    assert rows[later.key]["known_from"] == "measured here"
    assert 0.5 < rows[later.key]["minutes"] * 60 / (2 * sum(STAGES.values())) < 2  # two rounds
    others = {row["known_from"] for key, row in rows.items() if key not in (grpo.key, later.key)}
    assert others == {"scale's own statement"}


def test_a_method_that_does_not_train_is_not_estimated_as_training(tmp_path: Path) -> None:
    plan = expand(load("table10", CONFIGS), "paper", CONFIGS, environments=["bfcl"])
    known = {row["run"].split("-")[1]: row["known_from"] for row in costs(plan, tmp_path).iter_rows(named=True)}
    assert known["grpo"].startswith("first principles")
    assert known["reflexion"] == known["zero_shot"] == ""
