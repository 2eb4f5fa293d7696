"""How many supervised steps, and CPU seconds, until a model made from nothing copies: Muon + AdamW against AdamW alone.

    python benchmarks/warm_start.py [--steps 800]

Both learn the same copying exercises with the same rate until the averaged loss falls below ``COPYING_LEARNED``.
"""

from __future__ import annotations

import argparse
import random
import time

import torch

from coevolve_lab.config import TinyModelConfig
from coevolve_lab.policy.tiny import TinyChat, build_model, train_tokenizer
from coevolve_lab.policy.warm_start import COPYING_LEARNED, copy_exercise
from coevolve_lab.training.supervised import muon_and_adamw, supervised_steps


def adamw_only(model: torch.nn.Module, learning_rate: float) -> list[torch.optim.Optimizer]:
    return [torch.optim.AdamW(model.parameters(), learning_rate, betas=(0.9, 0.99), weight_decay=0.0)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=6)) for _ in range(2000)]
    config = TinyModelConfig()
    tokenizer = train_tokenizer(words, config.vocabulary)
    chat = TinyChat(tokenizer)
    examples = [copy_exercise(chat, rng) for _ in range(given.steps * given.batch)]
    for name, optimizers in (("Muon + AdamW", muon_and_adamw), ("AdamW", adamw_only)):
        model = build_model(config, tokenizer.get_vocab_size(), seed=0)
        started = time.process_time()
        losses = supervised_steps(
            model, examples, given.steps, given.batch, given.learning_rate, seed=0, until=COPYING_LEARNED,
            make_optimizers=optimizers,
        )  # fmt: skip
        spent = time.process_time() - started
        end = sum(losses[-20:]) / len(losses[-20:])
        reached = "learned" if len(losses) < given.steps else "not learned"
        print(f"{name:13} {reached} after {len(losses)} steps, {spent:.1f} CPU-s, last losses {end:.3f} nats/token")


if __name__ == "__main__":
    main()
