"""One vLLM server for all tests that need one: starting it takes most of their time. It runs in its own environment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from coevolve_lab.background import VllmServer
from coevolve_lab.config import EngineConfig
from tests.conftest import vllm_python
from tests.policy.small_models import save_model

READY_SECONDS = 280.0
MAX_MODEL_LEN = 8192


@pytest.fixture(scope="session")
def engine_config() -> EngineConfig:
    """What the shared server runs with. Without the interpreter, the marker ``vllm`` skips."""
    return EngineConfig(
        kind="vllm",
        python=str(vllm_python()),
        max_model_len=MAX_MODEL_LEN,
        ready_seconds=READY_SECONDS,
        arguments=["--enforce-eager", "--max-num-seqs", "64"],
    )


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model with a liking for quotation marks, by which strings in its structured replies come to an end."""
    folder = save_model("llama", tmp_path_factory.mktemp("vllm") / "model")
    quote = AutoTokenizer.from_pretrained(folder).convert_tokens_to_ids('"')
    config = LlamaConfig.from_pretrained(folder)
    config.update(
        {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 2, "num_key_value_heads": 1}
        | {"head_dim": 32, "max_position_embeddings": MAX_MODEL_LEN}
    )
    torch.manual_seed(1)
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        embedded, head = model.model.embed_tokens.weight, model.lm_head.weight
        embedded.normal_()
        embedded[:, 0] = 3.0  # so that the first of the last layer's outputs is 3 or so, whatever came before
        head.normal_(std=0.1)
        head[:, 0] = 0.0
        head[quote, 0] = 1.3
    model.save_pretrained(folder)
    return folder


class Served(VllmServer):
    """The shared server, ready at ``url``. model: the folder of what it serves as ``base_name``."""

    base_name = "policy-base"
    url: str
    model: Path


@pytest.fixture(scope="session")
def shared_server(
    tmp_path_factory: pytest.TempPathFactory, model_folder: Path, engine_config: EngineConfig
) -> Iterator[Callable[[], Served]]:
    server = Served(tmp_path_factory.mktemp("server"))
    server.model = model_folder

    def ready() -> Served:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
            server.start(model_folder, engine_config, lora_rank=8, dtype="float32", served_name=server.base_name)
        server.url = server.wait_ready(READY_SECONDS)
        return server

    yield ready
    server.stop()


@pytest.fixture
def server(shared_server: Callable[[], Served]) -> Served:
    """The shared server; started again when an earlier test has ended it."""
    return shared_server()
