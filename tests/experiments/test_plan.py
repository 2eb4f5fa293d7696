"""An experiment becomes runs: what is the same is shared, what differs is never mixed, errors name what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from coevolve_lab.config import load_config
from coevolve_lab.errors import ConfigError
from coevolve_lab.experiments.declaration import known, load
from coevolve_lab.experiments.plan import REQUEST, expand, world_name
from tests.experiments.conftest import CONFIGS, written


@pytest.mark.parametrize("name", known(CONFIGS))
def test_every_experiment_that_comes_with_the_project_expands(name: str) -> None:
    experiment = load(name, CONFIGS)
    assert experiment.name == name
    of_tiny_policies = name.startswith("question")
    for scale in ("smoke", "tiny") if of_tiny_policies else ("smoke", "tiny", "paper"):
        plan = expand(experiment, scale, CONFIGS, seeds=[0])
        assert {cell.column for cell in plan.cells} <= {"bfcl", "appworld", *experiment.environments}
        assert len({cell.key: cell.config for cell in plan.cells}) == len(plan.runs) > 0


def test_a_warm_start_is_not_changed_for_a_model_that_has_none() -> None:
    with pytest.raises(ConfigError, match=r"only the tiny policy has a warm start.*Qwen3-4B"):
        expand(load("question", CONFIGS), "paper", CONFIGS)


def test_arms_of_a_seed_begin_alike_unless_they_say_otherwise(tmp_path: Path) -> None:
    plan = expand(
        written(
            tmp_path,
            "title: t\narms:\n  a: {method: grpo}\n  b: {method: coevolve, set: {training: {learning_rate: 0.5}}}\n"
            "  c: {method: coevolve, initial: {evolution: {initial_tasks: 7}}}\n",
        ),
        "small",
        tmp_path,
    )
    starts = {(cell.arm, cell.seed): cell.start for cell in plan.cells}
    assert starts["a", 0] == starts["b", 0]
    assert starts["a", 0] != starts["c", 0]
    assert starts["a", 0] != starts["a", 1]
    assert len(plan.starts) == 4
    assert starts["c", 1].config.evolution.initial_tasks == 7
    of_b = next(cell.config for cell in plan.cells if cell.arm == "b")
    assert of_b.training.learning_rate == 0.5
    assert of_b.evolution.mode == "feedback"


def test_two_arms_that_are_the_same_run_are_played_once(tmp_path: Path) -> None:
    text = "title: t\narms:\n  a: {method: grpo, row: x}\n  b: {method: grpo, row: y}\n"
    plan = expand(written(tmp_path, text), "small", tmp_path)
    assert (len(plan.cells), len(plan.runs)) == (4, 2)


def test_another_setting_is_another_folder(tmp_path: Path) -> None:
    text = "title: t\narms:\n  a: {method: grpo}\n  b: {method: grpo, set: {rollout: {temperature: 0.5}}}\n"
    first, second = (cell.key for cell in expand(written(tmp_path, text), "small", tmp_path, seeds=[3]).cells)
    assert first != second
    assert first.startswith("bfcl-grpo-s3-")


def test_a_column_may_be_a_special_case_of_an_environment(tmp_path: Path) -> None:
    text = (
        "title: t\nown_warm_start: true\nenvironments:\n  plain: {of: bfcl}\n"
        "  weak: {of: bfcl, initial: {policy: {warm_start: {weak_tools: 1}}}}\narms: {a: {method: grpo}}\n"
    )
    cells = expand(written(tmp_path, text), "small", tmp_path).cells
    weak = {cell.column: cell.config.policy.warm_start for cell in cells if cell.seed == 1}
    assert {column: (warm.weak_tools, warm.seed) for column, warm in weak.items()} == {
        "plain": (None, 1),
        "weak": (1, 1),
    }


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("title: t\narms: {a: {method: grpo, set: {rollout: {grup_size: 3}}}}", "group_size"),
        ("title: t\nenvironments: {webshop: {}}\narms: {a: {method: grpo}}", "webshop"),
        ("title: t\narms: {a: {method: grpo}}\nscales: {small: {arms: [b]}}", "'b'"),
        ("title: t\narms: {a: {method: grpo}}\nscales: {smal: {}}", "no scale 'smal'"),
        ("title: t\narms: {a: {method: grpo, set: {seed: 9}}}", "'seed' cannot change"),
        ("title: t\narms: {a: {method: grpo, elsewhere: {x: {of: webshop}}}}", "arm 'a'.*'webshop'; there are bfcl"),
        ("title: t\nenvironments: {x: {of: bfcl}}\narms: {a: {method: grpo, only: [y]}}", "no column 'y'; there are x"),
        ("title: t\narms: {a: {method: grpo, set: {evolution: {initial_tasks: 5}}}}", "under 'initial'"),
        ("title: t\narms: {a: {method: grpo, only: [bcfl]}}", "no column 'bcfl'"),
        ("title: t\narms: {a: {method: grpo, row: R}, b: {method: coevolve, row: R}}", "'a'.*'b'.*row 'R'.*bfcl"),
        ("title: t\narms: {a: {method: grpo, elsewhere: {bfcl: {of: bfcl}}}}", "row 'a' of one column, bfcl"),
        ("title: t\narms: {a: {method: reflexion, elsewhere: {x: {}}}}", "no score on x"),
        ("title: t\nenvironments: {x: {of: bfcl, split: test}}\narms: {a: {method: reflexion}}", "no score on test"),
    ],
)
def test_what_is_wrong_in_a_file_is_named_before_anything_is_played(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        expand(written(tmp_path, text), "small", tmp_path)


def test_an_unknown_scale_is_answered_with_what_there_is() -> None:
    with pytest.raises(ConfigError, match="smoke, tiny, paper"):
        expand(load("table5", CONFIGS), "huge", CONFIGS)


def test_a_run_that_began_otherwise_is_another_run(tmp_path: Path) -> None:
    text = (
        "title: t\narms:\n  a: {method: grpo, initial: {evolution: {validate_drafts: false}}}\n"
        "  b: {method: grpo, set: {evolution: {validate_drafts: false}}}\n"
    )
    first, second = expand(written(tmp_path, text), "small", tmp_path, seeds=[0]).cells
    assert first.config == second.config
    assert first.key != second.key


def test_a_seed_counts_once(tmp_path: Path) -> None:
    plan = expand(written(tmp_path, "title: t\narms: {a: {method: grpo}}"), "small", tmp_path, seeds=[4, 4])
    assert [cell.seed for cell in plan.cells] == [4]


def test_a_shared_run_is_evaluated_on_all_that_is_asked(tmp_path: Path) -> None:
    world = "{files: {set: {environment: {options: {classes: [GorillaFileSystem]}}}}}"
    other = world.replace("GorillaFileSystem", "TicketAPI")
    text = f"title: t\narms:\n  a: {{method: grpo, elsewhere: {world}}}\n  b: {{method: grpo, elsewhere: {other}}}\n"
    plan = expand(written(tmp_path, text), "small", tmp_path, seeds=[0])
    (run,) = plan.runs
    assert set(run.asked) == {*plan.cells[0].asked, *plan.cells[1].asked}
    assert len(run.asked) == 3  # the split and two worlds, although both are called "files"


@pytest.mark.parametrize("name", known(CONFIGS))
def test_what_is_wanted_is_the_same_in_another_process(name: str) -> None:
    for wanted in expand(load(name, CONFIGS), "tiny", CONFIGS, seeds=[0]).wanted:
        there = REQUEST.validate_json(REQUEST.dump_json(wanted))
        assert (there, there.key) == (wanted, wanted.key)


TWO_WORLDS = """
title: t
environments:
  files: {of: bfcl}
  files by scenario: {of: bfcl, metric: sgc}
  chosen: {of: bfcl, split: validation}
arms:
  none: {method: zero_shot}
  trained: {method: coevolve, only: [files], elsewhere: {loop: {of: other}}}
"""


def test_columns_may_be_about_one_run(tmp_path: Path) -> None:
    experiment = written(tmp_path, TWO_WORLDS)
    with_two_environments(tmp_path)
    plan = expand(experiment, "small", tmp_path, seeds=[0])
    none = {cell.column: cell for cell in plan.cells if cell.arm == "none"}
    assert {column: (cell.reports, cell.metric) for column, cell in none.items()} == {
        "files": ("held_out", "tgc"),
        "files by scenario": ("held_out", "sgc"),
        "chosen": ("validation", "tgc"),
    }
    (run,) = (run for run in plan.runs if run.arm == "none")
    assert run.asked == ("held_out", "validation")


def test_an_arm_may_be_of_one_column_and_be_tested_in_another_environment(tmp_path: Path) -> None:
    experiment = written(tmp_path, TWO_WORLDS)
    with_two_environments(tmp_path)
    (trained,) = (c for c in expand(experiment, "small", tmp_path, seeds=[3]).cells if c.arm == "trained")
    ((column, config),) = trained.elsewhere
    assert (column, config.environment.max_steps, config.seed) == ("loop", 7, 3)


def test_only_some_environments_may_be_played(tmp_path: Path) -> None:
    experiment = written(tmp_path, "title: t\narms: {a: {method: grpo}}")
    with_two_environments(tmp_path)
    assert {c.column for c in expand(experiment, "small", tmp_path).cells} == {"bfcl", "other"}
    assert {c.column for c in expand(experiment, "small", tmp_path, environments=["other"]).cells} == {"other"}
    with pytest.raises(ConfigError, match="has no environment 'othr'; there are bfcl, other"):
        expand(experiment, "small", tmp_path, environments=["othr"])


def test_an_environment_that_is_not_played_is_not_played_elsewhere_either(tmp_path: Path) -> None:
    experiment = written(tmp_path, TWO_WORLDS)
    with_two_environments(tmp_path)
    cells = expand(experiment, "small", tmp_path, seeds=[0], environments=["bfcl"]).cells
    assert {cell.arm for cell in cells} == {"none", "trained"}
    assert not any(cell.elsewhere for cell in cells)


def test_a_plan_without_a_run_is_an_error(tmp_path: Path) -> None:
    experiment = written(tmp_path, "title: t\narms: {a: {method: grpo, only: [other]}}")
    with_two_environments(tmp_path)
    assert [cell.column for cell in expand(experiment, "small", tmp_path, seeds=[0]).cells] == ["other"]
    with pytest.raises(ConfigError, match="no arm is played in bfcl"):
        expand(experiment, "small", tmp_path, environments=["bfcl"])


def test_one_row_may_have_an_arm_for_each_column(tmp_path: Path) -> None:
    experiment = written(
        tmp_path,
        "title: t\narms:\n  a: {method: grpo, row: R, only: [bfcl]}\n  b: {method: coevolve, row: R, only: [other]}\n",
    )
    with_two_environments(tmp_path)
    cells = expand(experiment, "small", tmp_path, seeds=[0]).cells
    assert [(cell.arm, cell.column) for cell in cells] == [("a", "bfcl"), ("b", "other")]


def test_another_world_is_told_apart_by_how_it_is_played() -> None:
    config = load_config({})
    others = [
        load_config(config, {"rollout": {"max_response_tokens": 100}}),
        load_config(config, {"policy": {"call_syntax": "code"}}),
        load_config(config, {"environment": {"max_steps": 3}}),
    ]
    assert len({world_name("x", one) for one in (config, *others)}) == 4
    assert world_name("x", load_config(config, {"rounds": 7})) == world_name("x", config)


def with_two_environments(folder: Path) -> None:
    """The scale "small" has a second environment, whose episodes have 7 steps."""
    smoke = CONFIGS.parent / "bfcl-smoke.yaml"
    (folder / "other.yaml").write_text(f"base: {smoke}\nname: other\nenvironment: {{max_steps: 7}}\n")
    (folder / "scales.yaml").write_text(
        f"small: {{about: for this test, environments: {{bfcl: {smoke}, other: other.yaml}}, seeds: [0, 1]}}"
    )
