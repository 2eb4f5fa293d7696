"""TRL's GRPOTrainer as a second witness: its loss and gradient against ours, through the whole trainer."""

from __future__ import annotations

import copy
import dataclasses
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from coevolve_lab.config import TrainingConfig
from coevolve_lab.records import Trajectory
from coevolve_lab.training import Trainer, group_advantages
from coevolve_lab.training.packing import to_sequence

trl = pytest.importorskip("trl", reason="trl is not installed (pip install 'coevolve-lab[dev]')")

KL = 0.04
SCORES = {"a": [1.0, 0.0, 1.0, 0.0], "b": [0.0, 0.3, 1.0, 0.0], "c": [1.0, 1.0, 1.0, 0.0]}


def _trl_trainer(model: Any, folder: Path) -> Any:
    from datasets import Dataset
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(WordLevel({"<pad>": 0, "<eos>": 1}, unk_token="<pad>")),
        pad_token="<pad>",
        eos_token="<eos>",
    )
    args = trl.GRPOConfig(
        output_dir=str(folder), temperature=0.9, beta=0.0, epsilon=0.2, epsilon_high=0.28, loss_type="bnpo",
        use_bias_correction_kl=False, per_device_train_batch_size=4, num_generations=4, use_cpu=True, bf16=False,
        activation_checkpointing=False, report_to=[],
    )  # fmt: skip
    dataset = Dataset.from_list([{"prompt": "x"}] * 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = trl.GRPOTrainer(
            model=model,
            args=args,
            train_dataset=dataset,
            processing_class=tokenizer,
            reward_funcs=lambda **_: [0.0] * 4,
        )
    # With beta set from the start it would look for the reference model on the hub.
    trainer.beta = KL
    trainer.current_gradient_accumulation_steps = 1
    return trainer


def _inputs(trajectories: list[Trajectory], reference: Callable[[Trajectory], torch.Tensor]) -> dict[str, Any]:
    """TRL's padded tensors: prompts on the left, completions on the right, replies masked as its tool results are."""
    sequences = [to_sequence(t) for t in trajectories]
    prompt, rest = max(s.prompt for s in sequences), max(len(s.ids) - s.prompt for s in sequences)
    rows = len(sequences)
    made = {
        "prompt_ids": torch.zeros(rows, prompt, dtype=torch.long),
        "prompt_mask": torch.zeros(rows, prompt, dtype=torch.long),
        "completion_ids": torch.zeros(rows, rest, dtype=torch.long),
        "completion_mask": torch.zeros(rows, rest, dtype=torch.long),
        "tool_mask": torch.zeros(rows, rest, dtype=torch.long),
        "old_per_token_logps": torch.zeros(rows, rest),
        "ref_per_token_logps": torch.zeros(rows, rest),
    }
    for r, (s, t) in enumerate(zip(sequences, trajectories, strict=True)):
        made["prompt_ids"][r, prompt - s.prompt :] = torch.tensor(s.ids[: s.prompt])
        made["prompt_mask"][r, prompt - s.prompt :] = 1
        made["completion_ids"][r, : len(s.ids) - s.prompt] = torch.tensor(s.ids[s.prompt :])
        made["completion_mask"][r, : len(s.ids) - s.prompt] = 1
        at = torch.tensor(s.sampled) - s.prompt
        made["tool_mask"][r, at] = 1
        made["old_per_token_logps"][r, at] = torch.tensor([p for step in t.steps for p in step.logprobs])
        made["ref_per_token_logps"][r, at] = reference(t)
    made["advantages"] = group_advantages([t.score for t in trajectories], [t.group_id for t in trajectories]).float()
    made["num_items_in_batch"] = made["tool_mask"].sum()
    return made


def _sampled_nearby(trajectory: Trajectory, logp: torch.Tensor) -> Trajectory:
    """As sampled by a slightly older policy: some ratios are beyond the clip, on either side."""
    shifts = torch.rand(len(logp), generator=torch.Generator().manual_seed(len(logp))) - 0.5
    left = (logp + shifts).tolist()
    steps = []
    for step in trajectory.steps:
        steps.append(dataclasses.replace(step, logprobs=tuple(left[: len(step.token_ids)])))
        left = left[len(step.token_ids) :]
    return dataclasses.replace(trajectory, steps=tuple(steps))


def _corrected(inputs: dict[str, Any], logp: list[torch.Tensor], importance: str, cap: float) -> dict[str, Any]:
    """The same inputs as TRL makes them for vLLM's samples: a weight of the token or the row, and no older policy."""
    differences = torch.zeros_like(inputs["old_per_token_logps"])
    for r, row in enumerate(logp):
        at = inputs["tool_mask"][r].bool()
        differences[r, at] = row - inputs["old_per_token_logps"][r, at]
    if importance == "sequence":
        differences = differences.sum(dim=-1, keepdim=True)
    ratio = torch.exp(differences).clamp(max=cap)
    return {**inputs, "old_per_token_logps": None, "importance_sampling_ratio": ratio}


@pytest.mark.parametrize("importance", ["off", "token", "sequence"])
@pytest.mark.parametrize("normalize", ["batch", "group"])
def test_loss_and_gradient_match_trl(
    make_model: Callable[..., Any], make_trajectories: Callable[..., Any], plain_logprobs: Callable[..., torch.Tensor],
    tmp_path: Path, normalize: str, importance: str,
) -> None:  # fmt: skip
    model, reference = make_model(seed=1), make_model(seed=2)
    trajectories = [_sampled_nearby(t, plain_logprobs(model, t, 0.9)) for t in make_trajectories(SCORES)]
    config = TrainingConfig(
        normalize=normalize, kl_coef=KL, tokens_per_microbatch=64, importance=importance, importance_cap=1.2
    )
    ours = Trainer(copy.deepcopy(reference), config, temperature=0.9, group_size=4)
    ours.model.load_state_dict(model.state_dict())
    measured = ours.backward(trajectories)
    assert 0.05 < measured["clip_fraction" if importance == "off" else "capped_fraction"] < 0.95

    theirs = _trl_trainer(model, tmp_path)
    theirs.use_vllm, theirs.vllm_importance_sampling_correction = importance != "off", True

    @torch.no_grad()
    def score(trajectory: Trajectory) -> torch.Tensor:
        return plain_logprobs(reference, trajectory, 0.9)

    # TRL knows no mean over groups of a group's token mean: it is the mean of its token mean on each group alone.
    batches = [trajectories] if normalize == "batch" else [trajectories[i : i + 4] for i in (0, 4, 8)]
    theirs.model.train()
    losses = []
    for batch in batches:
        inputs = _inputs(batch, score)
        if importance != "off":
            with torch.no_grad():
                inputs = _corrected(inputs, [plain_logprobs(model, t, 0.9) for t in batch], importance, cap=1.2)
        losses.append(theirs._compute_loss(theirs.model, inputs))
    loss = torch.stack(losses).mean()
    loss.backward()
    assert measured["loss"] == pytest.approx(loss.item(), abs=1e-6)
    expected = dict(theirs.model.named_parameters())
    for name, parameter in ours.model.named_parameters():
        assert float((parameter.grad - expected[name].grad).abs().max()) < 1e-6, name
