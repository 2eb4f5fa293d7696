"""One typed tree: what it refuses, how layers merge, and what its fingerprint depends on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coevolve_lab.config import Config, RareConfig, fingerprint, load_config
from coevolve_lab.errors import ConfigError


@pytest.mark.parametrize(
    ("tree", "key", "near"),
    [
        ({"seeed": 1}, "seeed", "seed"),
        ({"rollout": {"temperatur": 1}}, "rollout.temperatur", "temperature"),
        ({"policy": {"lora": {"rnk": 4}}}, "policy.lora.rnk", "rank"),
        ({"signals": {"rare": {"tetha": 4}}}, "signals.rare.tetha", "theta"),
        ({"evolution": {"task_per_round": 4}}, "evolution.task_per_round", "tasks_per_round"),
        ({"policy": {"warm_start": {"lr": 4}}}, "policy.warm_start.lr", "learning_rate"),
    ],
)
def test_unknown_keys_name_the_nearest_valid_one(tree: Any, key: str, near: str) -> None:
    with pytest.raises(ConfigError, match=f"unknown key '{key}'") as caught:
        load_config(tree)
    valid = str(caught.value).split("valid here: ")[1]
    assert near in valid
    if near != "learning_rate":
        assert f"did you mean '{near}'?" in str(caught.value)


@pytest.mark.parametrize(
    "tree",
    [
        {"rollout": {"group_size": 1}},
        {"rollout": {"temperature": 0}},
        {"evolution": {"mode": "feedbak"}},
        {"policy": {"dtype": "float16"}},
        {"rounds": "many"},
        {"signals": {"boundary": 3}},
        {"threads": 0},
        {"training": {"gradient_clip": 0}},  # "no clipping" elsewhere, and no learning at all here
        {"training": {"gradient_clip": -1}},
        {"training": {"warmup_steps": -4}},
        {"training": {"weight_decay": -1}},
    ],
)
def test_values_that_make_no_sense_are_named_with_what_was_given(tree: Any) -> None:
    with pytest.raises(ConfigError, match="got "):
        load_config(tree)


@pytest.mark.parametrize(
    "changes", [{"lora": {"rank": 4}}, {"device": "cuda"}, {"recompute": True}, {"revision": "main"}]
)
def test_what_would_do_nothing_to_the_tiny_policy_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"all of it is trained: {next(iter(changes))} would do nothing"):
        load_config({"policy": {"model": "tiny", **changes}})
    load_config({"policy": {"model": "some/model", **changes}})


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        load_config({"seeed": 1, "rollout": {"group_size": 1, "k": 8}})
    assert all(key in str(caught.value) for key in ("seeed", "rollout.group_size", "rollout.k"))


def test_overrides_merge_into_what_is_below() -> None:
    base = load_config({"rollout": {"group_size": 4}, "signals": {"rare": {"theta": 1.0}}})
    changed = load_config(base, rollout={"temperature": 0.5}, signals={"rare": None}, seed=3)
    assert (changed.rollout.group_size, changed.rollout.temperature, changed.seed) == (4, 0.5, 3)
    assert changed.signals.rare is None
    assert base.signals.rare == RareConfig(theta=1.0)
    assert load_config(changed, signals={"rare": {"theta": 2.0}}).signals.rare == RareConfig(theta=2.0)


def test_a_file_can_build_on_another(tmp_path: Path) -> None:
    (tmp_path / "below.yaml").write_text("name: below\nrollout: {group_size: 4, temperature: 0.5}\n")
    (tmp_path / "above.yaml").write_text("base: below.yaml\nname: above\nrollout: {group_size: 2}\n")
    config = load_config(tmp_path / "above.yaml", seed=5)
    assert (config.name, config.rollout.group_size, config.rollout.temperature, config.seed) == ("above", 2, 0.5, 5)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no file"):
        load_config(tmp_path / "nothing.yaml")
    for text, words in (
        ("rollout: [", "not valid YAML"),
        ("name: caf\xe9", "not UTF-8"),
        ("- a\n- b\n", "mapping"),
        ("seeed: 1\n", r"bad\.yaml.*seeed"),
    ):
        (tmp_path / "bad.yaml").write_text(text, encoding="latin-1")
        with pytest.raises(ConfigError, match=words):
            load_config(tmp_path / "bad.yaml")


def test_the_fingerprint_changes_with_any_value_and_with_nothing_else() -> None:
    tree = Config().model_dump(mode="json")
    assert load_config(tree).fingerprint() == Config().fingerprint()
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    seen = {Config().fingerprint()}
    for changes in ({"seed": 1}, {"rollout": {"group_size": 4}}, {"signals": {"rare": None}}, {"name": "x"}):
        seen.add(load_config(Config(), **changes).fingerprint())
    assert len(seen) == 5


def test_a_config_cannot_be_changed_in_place() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Config().seed = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("explorer", "told"),
    [
        ({"kind": "llm", "model": "m", "api_key_env": "sk-SECRET"}, "name of an environment variable"),
        ({"kind": "llm", "model": "m", "base_url": "https://u:SECRET@host.example/v1"}, "must not hold credentials"),
        ({"kind": "llm", "model": "m", "roles": {"judge": {"api_key_env": "sk-SECRET"}}}, "environment variable"),
        ({"model": "m", "base_url": "http://127.0.0.1/v1"}, "add kind: llm"),
        ({"kind": "llm"}, "needs a model"),
    ],
)
def test_an_explorer_that_cannot_work_is_refused_without_repeating_secrets(explorer: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told) as refused:
        load_config({}, evolution={"explorer": explorer})
    assert "SECRET" not in str(refused.value)


def test_a_judge_decides_or_nobody_does() -> None:
    with pytest.raises(ConfigError, match="choose one"):
        load_config({}, evolution={"judge": "gate", "validate_drafts": False})


def test_what_is_sampled_ahead_needs_a_server_that_stays_awake() -> None:
    ahead = {"rollout": {"max_staleness": 1}}
    assert load_config(ahead, engine={"kind": "vllm"}).rollout.max_staleness == 1
    with pytest.raises(ConfigError, match="samples with the weights that change meanwhile"):
        load_config(ahead)
    with pytest.raises(ConfigError, match=r"engine\.sleep"):
        load_config(ahead, engine={"kind": "vllm", "sleep": True})
    with pytest.raises(ConfigError, match="max_staleness"):
        load_config({"rollout": {"max_staleness": 2}}, engine={"kind": "vllm"})
