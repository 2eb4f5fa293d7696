"""A vLLM server against sampling in this process, on the same work: tokens a second, swap time, log-probability gap.

    python benchmarks/vllm_engine.py --python .venv-vllm/bin/python [--model FOLDER] [--whole] [--overlap 4]

Starts a server of its own. Without --model: a random Qwen3 of 1.2 million parameters (heads of 32, the smallest that
vLLM has on a CPU), float32. Both sides play the same episodes with an adapter of rank 8, or with --whole without one:
prompts of fixed length, actions that never end by themselves, replies of fixed length. Wall clock, best of two.

--overlap N: the wall clock of N steps that sample and train, in turns and with the next step sampled while one trains
(``rollout.max_staleness``). On one machine's CPUs both compete for the same cores, which two GPUs do not.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import fmean, median

import peft
import torch
from tokenizers import Tokenizer

from coevolve_lab.background import VllmServer
from coevolve_lab.config import EngineConfig, LoraConfig, PolicyConfig, TinyModelConfig, TrainingConfig
from coevolve_lab.policy.adapters import save_whole
from coevolve_lab.policy.ahead import Ahead
from coevolve_lab.policy.engine import Engine, Request
from coevolve_lab.policy.policy import Policy, assemble, build_policy, trainable_weights
from coevolve_lab.policy.tiny import TinyChat, build_model, train_tokenizer
from coevolve_lab.policy.torch_engine import TorchEngine
from coevolve_lab.policy.vllm_engine import VllmEngine
from coevolve_lab.records import Step, Trajectory
from coevolve_lab.training import Trainer

TINY = TinyModelConfig(hidden=160, layers=3, heads=5, feed_forward=480, vocabulary=600)
GROUP = 8
NEVER = 1  # an end token that has to be sampled by chance: none is forbidden, few are drawn


def tiny_tokenizer() -> Tokenizer:
    return train_tokenizer(["[mv(source='report.txt', destination='/tmp/2024')] done, moved it"] * 4, TINY.vocabulary)


def tiny(folder: Path, adapter: bool) -> tuple[Policy, Path]:
    """A random policy, and the folder that a server starts from."""
    tokenizer = tiny_tokenizer()
    policy = assemble(build_model(TINY, tokenizer.get_vocab_size(), seed=0), TinyChat(tokenizer))
    saved = save_whole(policy.model, policy.chat, folder, 0)
    if not adapter:
        return policy, saved
    lora = peft.LoraConfig(task_type="CAUSAL_LM", r=8, lora_alpha=16, target_modules="all-linear")
    return assemble(peft.get_peft_model(policy.model, lora), policy.chat), saved


def play(engine: Engine, prompts: list[list[int]], given: argparse.Namespace) -> list[Trajectory]:
    """All episodes, in groups of ``GROUP`` of which every other member is told that it did well."""
    talks: list[list[int]] = [list(p) for p in prompts]
    steps: list[list[Step]] = [[] for _ in prompts]
    reply = (7,) * given.reply
    for turn in range(given.turns):
        requests = [Request(str(i), talk, given.action) for i, talk in enumerate(talks)]
        for i, completion in enumerate(engine.generate(requests, 0.9, turn)):
            talks[i] += [*completion.ids, *reply]
            steps[i].append(Step(0, "", "", (), False, completion.ids, completion.logprobs, reply))
    engine.release([str(i) for i in range(len(talks))])
    version = engine.policy_version
    return [
        Trajectory(str(i), "t", str(i // GROUP), version, 1, 1, i % 2.0, "completed", tuple(said), tuple(prompt), 0.9)
        for i, (prompt, said) in enumerate(zip(prompts, steps, strict=True))
    ]


def timed(engine: Engine, prompts: list[list[int]], given: argparse.Namespace) -> tuple[float, int]:
    """Seconds and sampled tokens of all episodes."""
    started = time.perf_counter()
    played = play(engine, prompts, given)
    return time.perf_counter() - started, sum(len(step.token_ids) for t in played for step in t.steps)


def a_round(
    policy: Policy,
    engine: VllmEngine,
    trainer: Trainer,
    prompts: list[list[int]],
    given: argparse.Namespace,
    ahead: bool,
) -> tuple[float, float]:
    """Seconds of ``given.overlap`` steps, and of their training alone."""
    started, training = time.perf_counter(), 0.0
    batch = play(engine, prompts, given)
    for step in range(1, given.overlap + 1):
        begun = None
        if ahead and step < given.overlap:
            begun = Ahead(engine.pin(), lambda pinned, _: play(pinned, prompts, given))
            begun.begin()
        trains = time.perf_counter()
        trainer.step(batch, step=step, round=1, policy_version=policy.version + 1)
        policy.advance()
        training += time.perf_counter() - trains
        if step < given.overlap:
            batch = play(engine, prompts, given) if begun is None else begun.take(lambda _: None)
    return time.perf_counter() - started, training


def gaps(engine: Engine, policy: Policy, prompts: list[list[int]], action: int) -> list[float]:
    """|server's - trainer's log-probability| of each token that the server samples at temperature 0.9."""
    found = []
    requests = [Request(str(i), prompt, action) for i, prompt in enumerate(prompts[:16])]
    policy.model.eval()
    for request, completion in zip(requests, engine.generate(requests, 0.9, 0), strict=True):
        ids = torch.tensor([[*request.ids, *completion.ids]], device=policy.model.device)
        with torch.inference_mode():
            logp = (policy.model(ids).logits[0].float() / 0.9).log_softmax(-1)
        first = len(request.ids) - 1
        found += [abs(logp[first + i, t].item() - completion.logprobs[i]) for i, t in enumerate(completion.ids)]
    return found


def swaps(policy: Policy, engine: VllmEngine, prompts: list[list[int]], count: int) -> list[tuple[float, float]]:
    """(seconds until a new version was proven and switched to, of which export and proof here) of each of some."""
    found = []
    for _ in range(count):
        with torch.no_grad():
            for weight in trainable_weights(policy.model).values():
                weight.add_(1e-3 * torch.randn_like(weight))
        policy.advance()
        started = time.perf_counter()
        engine.generate([Request("0", prompts[0], 1)], 0.0, 0)
        assert engine.last_swap is not None
        found.append((time.perf_counter() - started, engine.last_swap.seconds))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", help="interpreter that has vLLM; default: this one")
    parser.add_argument("--model", help="a model folder instead of the random tiny one")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--whole", action="store_true", help="full fine-tuning: no adapter")
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--prompt", type=int, default=120)
    parser.add_argument("--action", type=int, default=24)
    parser.add_argument("--reply", type=int, default=20)
    parser.add_argument("--swaps", type=int, default=5)
    parser.add_argument("--overlap", type=int, default=0, metavar="N", help="also time N steps of a round; 0: do not")
    parser.add_argument("--argument", action="append", default=[], help="of the server's command line; repeatable")
    given = parser.parse_args()
    config = EngineConfig(kind="vllm", python=given.python, max_model_len=2048, arguments=given.argument)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if given.model is None:
            policy, model = tiny(folder, adapter=not given.whole)
        else:
            model = Path(given.model)
            lora = None if given.whole else LoraConfig(rank=8, alpha=16)
            policy = build_policy(PolicyConfig(model=given.model, dtype=given.dtype, lora=lora))
        server = VllmServer(folder / "server")
        started = time.perf_counter()
        server.start(model, config, lora_rank=None if given.whole else 8, dtype=given.dtype, served_name="base")
        try:
            engine = VllmEngine(server.wait_ready(config.ready_seconds), "base", [NEVER], config)
            print(f"server ready after {time.perf_counter() - started:.0f} s")
            policy.sample_by(engine, folder / "versions")
            here = TorchEngine(policy.model, [NEVER], policy.chat.pad_id)
            draw = torch.Generator().manual_seed(0)
            prompts = torch.randint(5, 200, (given.episodes, given.prompt), generator=draw).tolist()
            timed(engine, prompts[:2], given)  # the server compiles what it needs on its first requests
            rates: dict[str, float] = {}
            for name_, one in (("vllm", engine), ("torch", here)) * 2:
                seconds, tokens = timed(one, prompts, given)
                rates[name_] = max(rates.get(name_, 0.0), tokens / seconds)
            for name_, rate in rates.items():
                print(f"{name_:6} {rate:8.0f} sampled tokens/s, {given.episodes} episodes at once")
            print(f"vllm / torch: {rates['vllm'] / rates['torch']:.2f}")
            found = gaps(engine, policy, prompts, given.action)
            print(f"log-probability gap at temperature 0.9: mean {fmean(found):.2g}, largest {max(found):.2g}")
            times = swaps(policy, engine, prompts, given.swaps)
            print(
                f"a new version serves after {median(t for t, _ in times) * 1000:.0f} ms (median of {len(times)}: "
                f"export, load, list, prove), {median(s for _, s in times) * 1000:.0f} ms of it at the server"
            )
            if given.overlap:
                trainer = Trainer(policy.model, TrainingConfig(gap_alarm=99), 0.9, GROUP, max_staleness=1)
                rounds: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
                for ahead in (False, True) * 2:
                    rounds[ahead].append(a_round(policy, engine, trainer, prompts, given, ahead))
                (turns, training), (overlapped, beside) = min(rounds[False]), min(rounds[True])
                print(f"{given.overlap} steps in turns {turns:.1f} s, {training:.1f} of them training")
                print(f"the next sampled while one trains {overlapped:.1f} s, {beside:.1f} of them training")
                print(f"with overlap / without: {overlapped / turns:.2f}")
        finally:
            server.stop()


if __name__ == "__main__":
    main()
