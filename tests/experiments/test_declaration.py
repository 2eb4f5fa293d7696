"""Files of experiments: what may stand in them, and what is said of one that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from coevolve_lab.config import load_config
from coevolve_lab.errors import ConfigError
from coevolve_lab.experiments.declaration import known, load, scales
from coevolve_lab.paper import catalogue
from tests.experiments.conftest import CONFIGS, written


def test_every_table_and_figure_of_the_paper_has_an_experiment_but_the_settings() -> None:
    assert set(catalogue()["name"]) - set(known(CONFIGS)) == {"table9"}


def test_tables_and_figures_come_first_and_in_the_papers_order(tmp_path: Path) -> None:
    for name in ("own", "table10", "figure3b", "scales", "figure3a", "table2", "figures"):
        (tmp_path / f"{name}.yaml").touch()
    assert known(tmp_path) == ["table2", "table10", "figure3a", "figure3b", "figures", "own"]


def test_an_unknown_name_is_answered_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'table5'"):
        load("tabel5", CONFIGS)
    with pytest.raises(ConfigError, match="holds none"):
        load("table5", tmp_path)


def test_a_scale_has_its_configs_with_its_own_settings(tmp_path: Path) -> None:
    written(tmp_path, "title: t\narms: {a: {method: grpo}}")
    (tmp_path / "world.yaml").write_text("rounds: 3\nrollout: {group_size: 2}\n")
    (tmp_path / "scales.yaml").write_text(
        "one: {about: a, environments: {e: world.yaml}, seeds: [0], set: {rounds: 5}}\n"
        "other: {about: b, environments: {e: nowhere.yaml}, seeds: [0]}\n"
    )
    found = scales(tmp_path)
    assert found["one"].configs == {"e": load_config({"rounds": 5, "rollout": {"group_size": 2}})}
    with pytest.raises(ConfigError, match="nowhere"):
        _ = found["other"].configs


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("title: t\narms: {a: {method: grop}}", "grpo"),
        ("title: t\narms: {a: {method: grpo, sett: {}}}", "arms.a.sett"),
        ("[1, 2]", "mapping"),
        ("title: t\narms: {}", "arms"),
        ("title: t\ncompares: table five\narms: {a: {method: grpo}}", "compares"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        written(tmp_path, text)
