"""Training throughput of the tiny policy on one CPU thread, as ratios within one run.

    python benchmarks/training_throughput.py [--groups 16] [--repeat 3]

Tokens are those of the sequences as sampled (prompt, actions, replies), each counted once per trajectory however it is
computed. Every line is the best of ``--repeat`` interleaved runs in CPU time, so that other load on the machine
disturbs all lines alike. "bare" is what a plain loop would do: the padded sequences through forward and backward with
the model's own loss over all tokens, no optimizer, no reference policy.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from collections.abc import Callable, Iterator

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from transformers import Qwen3ForCausalLM

from coevolve_lab.config import TinyModelConfig, TrainingConfig
from coevolve_lab.policy.tiny import build_model
from coevolve_lab.records import Step, Trajectory
from coevolve_lab.training import Trainer, supervised_steps
from coevolve_lab.training.packing import Sequence1D, pack, to_sequence, token_logprobs

VOCABULARY = TinyModelConfig().vocabulary
GROUP_SIZE = 8
TEMPERATURE = 0.9


def made_up(groups: int, agreement: float) -> list[Trajectory]:
    """Trajectories of about 70 tokens, half of them prompt and a third of them actions.

    agreement: chance that a trajectory goes on as the group's first one did, step after step until it once does not.
    A policy that has learned something repeats itself: that is when the trie saves more than the prompt.
    """
    rng = random.Random(0)

    def ids(low: int, high: int) -> tuple[int, ...]:
        return tuple(rng.randrange(VOCABULARY) for _ in range(rng.randint(low, high)))

    def new_step() -> Step:
        sampled = ids(8, 14)
        return Step(0, "", "", token_ids=sampled, logprobs=(-6.9,) * len(sampled), reply_ids=ids(4, 8))

    made = []
    for g in range(groups):
        prompt, first = ids(28, 42), [new_step() for _ in range(2)]
        for k in range(GROUP_SIZE):
            steps: list[Step] = []
            together = k > 0
            for step in first:
                together = together and rng.random() < agreement
                steps.append(step if together or k == 0 else new_step())
            made.append(
                Trajectory(
                    f"{g}-{k}", f"{g}", f"{g}", 0, 0, 0, float(k % 2), "completed", tuple(steps), prompt,
                    temperature=TEMPERATURE,
                )
            )  # fmt: skip
    return made


def padded(sequences: list[Sequence1D], tokens: int) -> Iterator[list[Sequence1D]]:
    """Sequences sorted by length and cut into micro-batches of at most ``tokens`` tokens, padding included."""
    batch: list[Sequence1D] = []
    for sequence in sorted(sequences, key=lambda s: len(s.ids)):
        if batch and (len(batch) + 1) * len(sequence.ids) > tokens:
            yield batch
            batch = []
        batch.append(sequence)
    yield batch


def bare(model: Qwen3ForCausalLM, sequences: list[Sequence1D], tokens: int) -> None:
    """Forward and backward over padded sequences with the model's own loss."""
    for batch in padded(sequences, tokens):
        rows = [torch.tensor(s.ids) for s in batch]
        ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        labels = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-100)
        model(input_ids=ids, labels=labels).loss.backward()
    model.zero_grad()


def packed(model: Qwen3ForCausalLM, sequences: list[Sequence1D], tokens: int) -> None:
    """Forward and backward over tries, logits for actions only."""
    for batch in pack(sequences, tokens):
        logp, _ = token_logprobs(model, batch, TEMPERATURE)
        logp.mean().backward()
    model.zero_grad()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--groups", type=int, default=16)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for agreement in (0.0, 0.6):
        measure(options.groups, options.repeat, agreement)


def measure(groups: int, repeat: int, agreement: float) -> None:
    """Print one table."""
    model = build_model(TinyModelConfig(), VOCABULARY, seed=0)
    trajectories = made_up(groups, agreement)
    sequences = [to_sequence(t) for t in trajectories]
    total = sum(len(s.ids) for s in sequences)
    nodes = sum(sum(batch.lengths) for batch in pack(sequences, 2048))
    examples = [(list(s.ids), [int(i in s.sampled) for i in range(len(s.ids))]) for s in sequences]
    runs: dict[str, Callable[[], object]] = {}
    for tokens in (1024, 2048, 4096, 16384):
        runs[f"bare, padded, {tokens}"] = lambda t=tokens: bare(model, sequences, t)  # type: ignore[misc]
        runs[f"packed, {tokens}"] = lambda t=tokens: packed(model, sequences, t)  # type: ignore[misc]
    for kl in (0.0, 1e-3):
        config = TrainingConfig(kl_coef=kl, learning_rate=1e-9, tokens_per_microbatch=2048)
        trainer = Trainer(model, config, TEMPERATURE, GROUP_SIZE)
        runs[f"Trainer.step, kl_coef {kl}, 2048"] = lambda t=trainer: t.step(trajectories, 0, 0, 0)  # type: ignore[misc]
    runs["supervised_steps, batch 32"] = lambda: supervised_steps(
        model, examples, steps=len(examples) // 32, batch=32, learning_rate=1e-9, seed=0
    )
    best = dict.fromkeys(runs, float("inf"))
    for attempt in range(repeat + 1):
        for name, run in runs.items():
            started = time.process_time()
            run()
            if attempt:  # the first round warms up
                best[name] = min(best[name], time.process_time() - started)
    baseline = min(seconds for name, seconds in best.items() if name.startswith("bare"))
    actions = sum(len(s.sampled) for s in sequences)
    print(
        f"\n{groups} groups x {GROUP_SIZE}, {total} tokens ({actions} of actions), agreement {agreement}: "
        f"the trie computes {nodes} ({nodes / total:.0%})"
    )
    print(f"{'':38}{'tokens per CPU-second':>22}{'x fastest bare':>16}")
    for name, seconds in best.items():
        print(f"{name:38}{total / seconds:22,.0f}{baseline / seconds:16.2f}")


if __name__ == "__main__":
    main()
