"""The configs that come with the project load, and say what they are for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from coevolve_lab import environments
from coevolve_lab.config import Config, load_config
from coevolve_lab.environments.appworld.package import DOWNLOAD_COMMAND, find, has_real_data

CONFIGS = sorted((Path(__file__).parents[1] / "configs").glob("*.yaml"))
BFCL_ON_GPU = ("bfcl-qwen3-4b", "bfcl-qwen2.5-7b", "bfcl-qwen3-30b-a3b")
ON_GPU = (*BFCL_ON_GPU, "appworld-qwen3-4b")


def load(name: str) -> Config:
    return load_config(next(path for path in CONFIGS if path.stem == name))


MARKS = {"appworld": pytest.mark.appworld}


def marked(path: Path) -> Any:
    """The path as a parameter, with the mark of what its environment needs."""
    return pytest.param(path, marks=[mark for name, mark in MARKS.items() if path.stem.startswith(name)])


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_config_loads(path: Path) -> None:
    config = load_config(path)
    assert config.name == path.stem
    assert load_config(config.model_dump(mode="json")).fingerprint() == config.fingerprint()


@pytest.mark.parametrize("path", [marked(path) for path in CONFIGS], ids=lambda path: path.stem)
def test_the_environment_of_a_config_can_be_made(path: Path) -> None:
    config = load_config(path)
    if config.environment.options.get("world") == "real" and not has_real_data(find()):
        pytest.skip(f"the data of the AppWorld benchmark are not here ({DOWNLOAD_COMMAND}, with a network)")
    made = environments.make(config.environment.name, **config.environment.options)
    assert {config.environment.evaluation_split, "explore"} <= set(made.splits())


@pytest.mark.parametrize("config", [Config(), *map(load, ON_GPU)], ids=lambda config: config.name)
def test_the_defaults_are_the_papers(config: Config) -> None:
    """Table 9 and section 3.1; the GPU configs depart from them only where they say so."""
    paper = {
        "rollout": {"temperature": 0.9, "group_size": 8, "tasks_per_step": 32, "max_response_tokens": 4096},
        "training": {"steps_per_round": 10, "clip_low": 0.2, "clip_high": 0.28, "kl_coef": 1e-3, "normalize": "group"},
        "evolution": {"initial_tasks": 100, "min_calls": 3, "validate_drafts": True},
        "environment": {"max_steps": 30},
    }
    for section, values in paper.items():
        tree = getattr(config, section).model_dump()
        assert {key: tree[key] for key in values} == values
    assert config.rounds * config.training.steps_per_round == 120


def test_the_papers_learning_rate_is_for_all_weights() -> None:
    assert Config().training.learning_rate == 1e-6
    assert all(load(name).policy.lora is not None and load(name).training.learning_rate == 1e-5 for name in ON_GPU)


@pytest.mark.parametrize("name", ON_GPU)
def test_a_gpu_config_shares_one_gpu_with_a_server(name: str) -> None:
    config = load(name)
    assert (config.engine.kind, config.engine.sleep, config.engine.url) == ("vllm", True, None)
    assert config.rollout.concurrency == config.rollout.tasks_per_step * config.rollout.group_size
    assert config.evolution.explorer.kind == "scripted"  # no key is needed
    assert config.environment.evaluation_split == ("test" if name in BFCL_ON_GPU else "test_normal")


def test_the_gpu_configs_differ_in_what_their_models_need() -> None:
    base, *others = (load(name).model_dump() for name in BFCL_ON_GPU)
    for other in others:
        changed = {key for key in base if base[key] != other[key]}
        assert changed == {"name", "policy", "engine"}
        assert other["policy"]["recompute"]
        assert {key for key in base["engine"] if base["engine"][key] != other["engine"][key]} == {"gpu_memory"}


@pytest.mark.parametrize("name", ON_GPU)
def test_the_llm_explorer_that_a_comment_shows_can_be_taken(name: str) -> None:
    own = name if name == "appworld-qwen3-4b" else "bfcl-qwen3-4b"
    text = next(path for path in CONFIGS if path.stem == own).read_text()
    shown = next(line for line in text.splitlines() if line.startswith("  #   explorer: "))
    config = load_config(load(name), evolution=yaml.safe_load(shown.removeprefix("  #   ")))
    assert (config.evolution.explorer.kind, config.evolution.explorer.model) == ("llm", "qwen3-max")


@pytest.mark.parametrize(("name", "split"), [("bfcl-tiny", "held_out"), ("appworld-mini", "test_normal")])
def test_the_cpu_runs_need_neither_gpu_nor_network(name: str, split: str) -> None:
    config = load(name)
    assert (config.policy.model, config.policy.device, config.policy.dtype) == ("tiny", "cpu", "float32")
    assert (config.environment.evaluation_split, config.evolution.explorer.kind) == (split, "scripted")


def test_agents_of_appworld_write_code() -> None:
    """And the GPU config is otherwise that of BFCL, but for the room that programs and their outputs need."""
    mini, real, bfcl = (load(name) for name in ("appworld-mini", "appworld-qwen3-4b", "bfcl-qwen3-4b"))
    assert {mini.policy.call_syntax, real.policy.call_syntax} == {"code"}
    assert real.environment.options["world"] == "real"
    assert real.policy.model_copy(update={"call_syntax": "json"}) == bfcl.policy
    assert real.rollout == bfcl.rollout
    assert {key for key, value in real.training if value != getattr(bfcl.training, key)} == {"tokens_per_microbatch"}
