"""Endpoints to ask, in front of a fake one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coevolve_lab.config import EndpointConfig
from coevolve_lab.endpoint import Cassette, Endpoint, Limits, Reply, run_async
from tests.fake_endpoint import MODEL, FakeEndpoint

Make = Callable[..., Endpoint]
KEY = "sk-a-key-that-nobody-may-see"
GOOD = {"name": "n", "steps": ["a"]}
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "steps": {"type": "array", "items": {"type": "string"}}},
    "required": ["name", "steps"],
}


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return KEY


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """An endpoint for a fake one, or for nobody; every one made in a test shares a recording."""

    def made(fake: FakeEndpoint | None, replay_only: bool = False, limits: Any = None, **config: Any) -> Endpoint:
        settings = {"model": MODEL, "base_url": fake.url if fake else "http://127.0.0.1:9/v1", **config}
        roles = {role: EndpointConfig(**settings) for role in ("reflect", "explore")}
        bounds = Limits(**{"retries": 2, "call_seconds": 20.0, **(limits or {})})
        return Endpoint(roles, bounds, Cassette(tmp_path / "cassette.jsonl", replay_only))

    return made


def ask(endpoint: Endpoint, subject: str = "s1", text: str = "go", role: str = "explore", **options: Any) -> Reply:
    return run_async(endpoint.ask(role, subject, [{"role": "user", "content": text}], **options))


def everyone(endpoint: Endpoint, count: int, **options: Any) -> list[Reply]:
    async def go() -> list[Reply]:
        message = [{"role": "user", "content": "go"}]
        return list(await asyncio.gather(*(endpoint.ask("explore", f"s{i}", message, **options) for i in range(count))))

    return run_async(go())
