"""Estimates against what can be counted on a CPU: parameters, adapters, caches, what autograd keeps, and arithmetic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

from coevolve_lab.config import load_config
from coevolve_lab.errors import ConfigError
from coevolve_lab.estimate import (
    GPUS,
    HALF,
    LOGITS_AT_ONCE,
    SHAPES,
    Shape,
    activation_bytes,
    adapted,
    estimate,
    estimate_memory,
    read_shape,
    shape_of,
    training_flops,
)
from coevolve_lab.estimate.__main__ import main
from coevolve_lab.training import packing
from coevolve_lab.training.packing import Sequence1D, pack, token_logprobs

ROOT = Path(__file__).resolve().parent.parent
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
SMALL = {
    "vocab_size": 304, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 192,
    "max_position_embeddings": 2048, "tie_word_embeddings": False,
}  # fmt: skip
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "qwen2": ("Qwen2", {}),
    "qwen3": ("Qwen3", {"head_dim": 32, "tie_word_embeddings": True}),
    "qwen3_moe": (
        "Qwen3Moe", {"head_dim": 32, "moe_intermediate_size": 48, "num_experts": 8, "num_experts_per_tok": 2},
    ),
}  # fmt: skip


def make(kind: str, layers: int = 2, dtype: torch.dtype = torch.bfloat16, **sizes: Any) -> Any:
    """A random model of one of KINDS."""
    name, own = KINDS[kind]
    config = getattr(transformers, f"{name}Config")(**{**SMALL, **own, **sizes}, num_hidden_layers=layers)
    torch.manual_seed(0)
    return getattr(transformers, f"{name}ForCausalLM")(config).to(dtype)


def shape(model: Any, folder: Path) -> Shape:
    """As read from the config.json that the model itself writes."""
    model.config.save_pretrained(folder)
    return read_shape(folder / "config.json")


def with_adapter(model: Any, modules: list[str] | str, rank: int = 4) -> Any:
    return peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", r=rank, target_modules=modules))


def one_row(tokens: int) -> packing.MicroBatch:
    """A row of one sequence whose last token alone is predicted."""
    ids = torch.randint(2, 300, (tokens + 1,), generator=torch.Generator().manual_seed(0)).tolist()
    (batch,) = pack([Sequence1D(tuple(ids), (tokens,), 5)], tokens)
    return batch


def kept_by_autograd(model: Any, tokens: int) -> int:
    """Bytes that a forward pass keeps for the backward one, weights apart."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, torch.Tensor] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        address = tensor.untyped_storage().data_ptr()
        if address not in weights:
            kept[address] = tensor
        return tensor

    model.train()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        token_logprobs(model, one_row(tokens), 0.9)
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_are_counted_as_the_model_has_them(kind: str, tmp_path: Path) -> None:
    model = make(kind)
    assert shape(model, tmp_path).parameters == sum(p.numel() for p in model.parameters())


def test_published_shapes_have_the_published_numbers_of_parameters() -> None:
    """As in the models' safetensors indexes."""
    assert [known.parameters for known in SHAPES.values()] == [4_022_468_096, 7_615_616_512, 30_532_122_624]
    assert f"{SHAPES['Qwen/Qwen3-30B-A3B-Instruct-2507'].active / 1e9:.1f}" == "2.7"  # 3.3 with both embeddings


@pytest.mark.parametrize("modules", ["all-linear", ATTENTION], ids=["all", "attention"])
@pytest.mark.parametrize("kind", ["qwen2", "qwen3"])
def test_adapters_are_counted_as_peft_makes_them(kind: str, modules: Any, tmp_path: Path) -> None:
    model = with_adapter(make(kind), modules)
    config = load_config({"policy": {"lora": {"rank": 4, "target_modules": modules}}})
    known = shape(model.get_base_model(), tmp_path)
    made = [p for p in model.parameters() if p.requires_grad]
    assert sum(p.numel() for p in made) == known.layers * sum(4 * (i + o) for i, o in adapted(config, known).values())
    assert {p.dtype for p in made} == {torch.float32}


@pytest.mark.parametrize(
    ("kind", "modules"),
    [
        *((kind, modules) for kind in KINDS for modules in (None, ATTENTION)),
        *((kind, "all-linear") for kind in KINDS if kind != "qwen3_moe"),  # adapters on experts are refused
    ],
)
def test_activations_are_what_autograd_keeps(kind: str, modules: Any, tmp_path: Path) -> None:
    tokens, kept = 256, []
    for layers in (1, 3):
        model = make(kind, layers)
        kept.append(kept_by_autograd(model if modules is None else with_adapter(model, modules), tokens))
    known = shape(make(kind), tmp_path)
    chosen = (
        {} if modules is None else {n: known.linears[n] for n in (known.linears if modules != ATTENTION else ATTENTION)}
    )
    counted = activation_bytes(known, chosen, None if modules is None else 4)  # the mask is one for all layers
    assert (kept[1] - kept[0]) / 2 / tokens == pytest.approx(counted, rel=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_with_recomputation_a_layer_keeps_its_input(kind: str) -> None:
    tokens, kept = 256, []
    for layers in (1, 3):
        model = with_adapter(make(kind, layers), ATTENTION)
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        kept.append(kept_by_autograd(model, tokens))
    assert (kept[1] - kept[0]) / 2 / tokens == HALF * SMALL["hidden_size"]


def test_logits_are_made_in_slices_of_that_size() -> None:
    assert LOGITS_AT_ONCE == packing._LOGITS_AT_ONCE


def test_a_token_takes_that_much_cache(tmp_path: Path) -> None:
    model = make("qwen3")
    cache = model(input_ids=torch.ones(1, 10, dtype=torch.long), use_cache=True).past_key_values
    taken = sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)
    assert shape(model, tmp_path).kv_bytes == taken / 10


@pytest.mark.parametrize("modules", [None, "all-linear"], ids=["whole", "lora"])
def test_the_arithmetic_is_what_is_computed(modules: Any, tmp_path: Path) -> None:
    """Large enough that matrices of rank 4 and the few logits count for little."""
    model = make("qwen3", dtype=torch.float32, hidden_size=256, intermediate_size=768, attn_implementation="eager")
    known, tokens = shape(model, tmp_path), 128
    trained = model if modules is None else with_adapter(model, modules, rank=1)
    batch = one_row(tokens)
    with FlopCounterMode(display=False) as counter:
        with torch.no_grad():
            token_logprobs(trained, batch, 0.9)
        token_logprobs(trained, batch, 0.9)[0].sum().backward()
    step = {"tokens": tokens, "sampled": 1, "row": tokens, "lora": modules is not None}
    counted = training_flops(known, **step, reference=True)
    assert counter.get_total_flops() == pytest.approx(counted, rel=0.05)
    forward = training_flops(known, **step, reference=True) - training_flops(known, **step, reference=False)
    assert training_flops(known, **step, reference=False, recompute=True) == pytest.approx(counted, rel=0.01)
    assert forward > 0


@pytest.mark.parametrize(
    ("name", "gpu"), [("bfcl-qwen3-4b", "H100"), ("bfcl-qwen2.5-7b", "H100"), ("bfcl-qwen3-30b-a3b", "H200")]
)
def test_the_gpu_configs_fit_by_estimate(name: str, gpu: str) -> None:
    rows = {row.name: row for row in estimate(load_config(ROOT / f"configs/{name}.yaml"), GPUS[gpu])}
    assert rows["left while training"].low > 5
    assert rows["left while sampling"].low > 5
    assert all(row.low <= row.high and row.how for row in rows.values())
    parts = ("weights", "adapter", "optimizer", "gradients", "activations", "attention mask", "logits")
    assert rows["trainer at work"].low == pytest.approx(sum(rows[part].low for part in parts))


def test_what_shares_the_gpu_is_counted() -> None:
    def left(**changes: Any) -> tuple[float, float]:
        config = load_config(ROOT / "configs/bfcl-qwen3-4b.yaml", **changes)
        rows = {row.name: row.low for row in estimate_memory(config, "a GPU", 79)}
        return rows["left while training"], rows["left while sampling"]

    asleep, awake = left(), left(engine={"sleep": False})
    assert asleep[0] - awake[0] == pytest.approx(0.8 * 79)
    assert asleep[1] == awake[1]
    elsewhere = left(engine={"sleep": False, "url": "http://127.0.0.1:8000"})
    assert elsewhere[0] == asleep[0]
    assert elsewhere[1] - asleep[1] == pytest.approx(0.8 * 79)
    here = left(engine={"kind": "torch", "sleep": False}, rollout={"concurrency": 32})
    assert elsewhere[1] - here[1] == pytest.approx(32 * 12288 * 147456 / 2**30)
    whole = left(policy={"lora": None})
    assert asleep[1] - whole[1] == pytest.approx((7 * 8.044936192e9 - 3 * 66_060_288 * 4) / 2**30, abs=0.01)


def test_what_cannot_be_estimated_says_why(tmp_path: Path) -> None:
    moe = {"model": "Qwen/Qwen3-30B-A3B-Instruct-2507"}
    cases: list[tuple[dict[str, Any], str]] = [
        ({"model": "tiny", "dtype": "float32"}, "bfloat16"),
        ({"model": "nobody/nothing"}, "shape of 'nobody/nothing' is not known"),
        ({**moe, "lora": {"rank": 8}}, "adapters on experts"),
        ({"lora": {"target_modules": ["qkv"]}}, "no qkv"),
    ]
    for policy, message in cases:
        with pytest.raises(ConfigError, match=message):
            estimate(load_config({"policy": policy}), GPUS["H100"])
    engine = {"kind": "vllm", "gpu_memory": 0.1}
    with pytest.raises(ConfigError, match="no room beside the weights"):
        estimate(load_config({"engine": engine}), GPUS["H100"])
    for text in ('{"model_type": "gpt2", "num_attention_heads": 4}', "{}", "no json"):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(ConfigError, match=r"config\.json"):
            shape_of(str(tmp_path))


def test_a_models_own_config_wins_over_the_published_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = {**make("qwen3").config.to_dict(), "num_hidden_layers": 7}
    (tmp_path / "config.json").write_text(json.dumps(tree))
    monkeypatch.setattr("transformers.utils.cached_file", lambda *a, **k: str(tmp_path / "config.json"))
    assert shape_of("Qwen/Qwen3-4B-Instruct-2507").layers == 7


def test_the_document_shows_what_its_commands_print(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.chdir(ROOT)
    document = (ROOT / "docs/gpu.md").read_text(encoding="utf-8")
    commands = [
        line.split()[3:] for line in document.splitlines() if line.startswith("python -m coevolve_lab.estimate")
    ]
    assert len(commands) == 2
    for command in commands:
        main(command)
        shown = capsys.readouterr().out.strip().splitlines()
        table = "\n".join(line for line in shown if line.startswith("|"))
        assert table
        assert table in document, f"docs/gpu.md is older than what {command} prints"
