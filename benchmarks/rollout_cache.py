"""Rollouts with the KV cache kept across turns against re-reading the conversation every turn. Ratios in one run.

    python benchmarks/rollout_cache.py [--turns 4] [--episodes 128]

The tiny model's shape with random weights; replies of fixed length stand for the environment, so both sides do the same
work. CPU seconds of this process, one thread, best of three.
"""

from __future__ import annotations

import argparse
import time

import torch

from coevolve_lab.config import TinyModelConfig
from coevolve_lab.policy.engine import Request
from coevolve_lab.policy.tiny import build_model
from coevolve_lab.policy.torch_engine import TorchEngine


def seconds(engine: TorchEngine, prompts: list[list[int]], turns: int, reply: int, action: int) -> tuple[float, int]:
    """CPU seconds and sampled tokens of all episodes."""
    talks, sampled, started = [list(p) for p in prompts], 0, time.process_time()
    for turn in range(turns):
        requests = [Request(str(i), talk, action) for i, talk in enumerate(talks)]
        for talk, completion in zip(talks, engine.generate(requests, 1.0, turn), strict=True):
            talk += [*completion.ids, *([7] * reply)]
            sampled += len(completion.ids)
    engine.release([str(i) for i in range(len(talks))])
    return time.process_time() - started, sampled


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--episodes", type=int, default=128)
    parser.add_argument("--prompt", type=int, default=30)
    parser.add_argument("--reply", type=int, default=12)
    parser.add_argument("--action", type=int, default=14)
    given = parser.parse_args()
    torch.set_num_threads(1)
    config = TinyModelConfig()
    model = build_model(config, config.vocabulary, seed=0)
    draw = torch.Generator().manual_seed(0)
    prompts = torch.randint(5, config.vocabulary, (given.episodes, given.prompt), generator=draw).tolist()
    best: dict[bool, tuple[float, int]] = {}
    for _ in range(3):
        for keep in (True, False):
            run = seconds(TorchEngine(model, [1], 0, keep), prompts, given.turns, given.reply, given.action)
            best[keep] = min(run, best.get(keep, run))
    for keep, (spent, tokens) in best.items():
        name = "kept cache" if keep else "no cache kept"
        print(f"{name:14} {spent:6.2f} CPU-s  {tokens / spent:8.0f} sampled tokens/CPU-s")
    ratio = best[False][0] / best[True][0]
    print(f"keeping the cache takes {1 / ratio:.2f} of the time ({ratio:.2f}x), {given.turns} turns")


if __name__ == "__main__":
    main()
