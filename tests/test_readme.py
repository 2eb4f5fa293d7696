"""The README's examples run as they stand, and what it names exists."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from coevolve_lab.cli import parser
from coevolve_lab.config import load_config

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = README.split("## Extend it")[1].split("\n## ")[0]
BLOCKS = dict(re.findall(r"### An? (\w+)\n.*?```python\n(.*?)```", EXAMPLES, flags=re.DOTALL))


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The run that each example left in its variable ``run``, by the example's name."""
    folder, before = tmp_path_factory.mktemp("readme"), Path.cwd()
    names: dict[str, Any] = {}
    runs = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COEVOLVE_CACHE", str(folder / "cache"))
        os.chdir(folder)
        try:
            for name, block in BLOCKS.items():
                exec(compile(block, f"README.md, {name}", "exec"), names)
                runs[name] = names["run"]
        finally:
            os.chdir(before)
    return runs


def test_each_kind_of_extension_has_an_example() -> None:
    assert list(BLOCKS) == ["environment", "signal", "method"]


def test_the_environment_example_makes_tasks_and_trains(outcome: dict[str, Any]) -> None:
    run = outcome["environment"]
    assert run.reader.committed_round == 1
    assert run.config.environment.name == "house"
    assert run.tasks().height > run.config.evolution.initial_tasks
    assert run.metrics()["step"].to_list() == [1, 2]


def test_the_signal_example_marks_trajectories(outcome: dict[str, Any]) -> None:
    run = outcome["signal"]
    marks = run.signals().filter(kind="slow")
    assert not marks.is_empty()
    assert marks["score"].to_list() == [1.0] * marks.height


def test_the_method_example_changes_what_is_trained_on(outcome: dict[str, Any]) -> None:
    run = outcome["method"]
    seeds = run.tasks().filter(round=0).select("id", "n_calls")
    tried = run.trajectories().filter(purpose="train", step=1)["task_id"].unique().to_list()
    short, others = seeds.filter(seeds["id"].is_in(tried)), seeds.filter(~seeds["id"].is_in(tried))
    assert short.height == run.config.rollout.tasks_per_step
    assert max(short["n_calls"].to_list()) <= min(others["n_calls"].to_list())
    assert set(seeds["n_calls"].to_list()) == {1, 2}


@pytest.mark.parametrize("block", re.findall(r"```yaml\n(.*?)```", README, flags=re.DOTALL))
def test_the_settings_it_shows_are_settings(block: str) -> None:
    settings = yaml.safe_load(block)
    assert load_config(ROOT / "configs" / "bfcl-tiny.yaml", **settings).model_dump(include=set(settings))


def test_the_house_it_shows_is_the_house() -> None:
    tree = README.split("coevolve_lab/\n")[1].split("```")[0]
    names = re.findall(r"^  ([\w.]+)/? ", tree, flags=re.MULTILINE)
    there = [path.name for path in (ROOT / "coevolve_lab").iterdir() if not path.name.startswith("_")]
    assert sorted(names) == sorted(set(there) - {"py.typed"})


def test_the_files_it_links_exist() -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)\)", README)
    named = re.findall(r"`((?:notebooks|configs|tests|coevolve_lab)/[\w/.]+\.\w+)`", README)
    assert links
    assert named
    assert [name for name in links + named if not (ROOT / name).exists()] == []
    pictures = {f"docs/images/{path.name}" for path in (ROOT / "docs" / "images").iterdir()}
    assert pictures - set(links) == set()


def test_the_commands_it_names_exist() -> None:
    choices = next(action.choices for action in parser()._actions if action.choices)
    used = set(re.findall(r"coevolve-lab (\w+)", README))
    assert {"demo", "run", "doctor", "install"} <= used
    assert used <= set(choices or ())
