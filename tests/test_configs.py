"""The configs that come with the project load, and say what they are for."""

from __future__ import annotations

from pathlib import Path

import pytest

from coevolve_lab import environments
from coevolve_lab.config import Config, load_config

CONFIGS = sorted((Path(__file__).parents[1] / "configs").glob("*.yaml"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_config_loads_and_its_environment_can_be_made(path: Path) -> None:
    config = load_config(path)
    assert config.name == path.stem
    made = environments.make(config.environment.name, **config.environment.options)
    assert {config.environment.evaluation_split, "explore"} <= set(made.splits())
    assert load_config(config.model_dump(mode="json")).fingerprint() == config.fingerprint()


def test_the_defaults_are_the_papers() -> None:
    """Table 9 and section 3.1; the GPU config departs from them only where it says so."""
    paper = {
        "rollout": {"temperature": 0.9, "group_size": 8, "tasks_per_step": 32, "max_response_tokens": 4096},
        "training": {"steps_per_round": 10, "clip_low": 0.2, "clip_high": 0.28, "kl_coef": 1e-3, "normalize": "group"},
        "evolution": {"initial_tasks": 100, "min_calls": 3, "validate_drafts": True},
        "environment": {"max_steps": 30},
    }
    for config in (Config(), load_config(next(p for p in CONFIGS if p.stem == "bfcl-qwen3-4b"))):
        for section, values in paper.items():
            tree = getattr(config, section).model_dump()
            assert {key: tree[key] for key in values} == values
        assert config.rounds * config.training.steps_per_round == 120
    assert Config().training.learning_rate == 1e-6


def test_the_default_run_needs_neither_gpu_nor_network() -> None:
    config = load_config(next(p for p in CONFIGS if p.stem == "bfcl-tiny"))
    assert (config.policy.model, config.policy.device, config.policy.dtype) == ("tiny", "cpu", "float32")
    assert config.environment.evaluation_split == "held_out"
