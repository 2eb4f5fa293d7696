"""What was answered once is never asked again: in the next process, after a kill, and without a key."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from coevolve_lab.endpoint import Endpoint, run_async
from coevolve_lab.errors import ExplorerError
from tests.endpoint.conftest import GOOD, SCHEMA, Make, ask, everyone
from tests.fake_endpoint import Answer, FakeEndpoint, fails, says, says_json

ROOT = Path(__file__).parents[2]


def test_nothing_that_was_answered_is_asked_again(make: Make) -> None:
    def answer(request: dict[str, Any], number: int) -> Answer:
        return says("no json") if len(request["messages"]) == 1 else says_json(GOOD)

    with FakeEndpoint(answer) as fake:
        options = {"price_prompt": 1.0, "limits": {"connections": 1}}
        first = everyone(make(fake, **options), 10, schema=SCHEMA)
        assert len(fake.requests) == 20
        endpoint = make(fake, **options)
        second = everyone(endpoint, 10, schema=SCHEMA)
        assert len(fake.requests) == 20
        assert [r.data for r in first] == [r.data for r in second] == [GOOD] * 10
        recorded = endpoint.drain()
        assert all(c.replayed and c.attempts == 0 for c in recorded)
        assert {(c.prompt_tokens, c.cost) for c in recorded} == {(100, 100 / 1e6)}  # what it once cost
        ask(endpoint, "s0", text="other words")
    assert len(fake.requests) == 21


def test_failures_are_asked_again_but_replayed_as_they_were(make: Make) -> None:
    with FakeEndpoint(lambda request, number: fails(400, "bad day") if number == 0 else says("hello")) as fake:
        assert ask(make(fake)).status == "error"
        assert ask(make(None, replay_only=True)).status == "error"
        assert ask(make(fake)).status == "ok"
        assert len(fake.requests) == 2
    replayed = ask(make(None, replay_only=True))
    assert (replayed.status, replayed.text) == ("ok", "hello")


def test_a_replay_repeats_how_an_evolution_stopped(make: Make) -> None:
    with FakeEndpoint(lambda request, number: says("hello")) as fake:
        first = everyone(make(fake, limits={"connections": 1, "tokens": 300}), 5)
    endpoint = make(None, replay_only=True)
    assert [r.status for r in everyone(endpoint, 5)] == [r.status for r in first]
    assert endpoint.exhausted == "tokens"


def test_a_replay_says_what_was_never_recorded(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeEndpoint(lambda request, number: says("hello")) as fake:
        ask(make(fake))
    monkeypatch.delenv("OPENAI_API_KEY")
    remote = make(None, replay_only=True, base_url="https://host.example/v1")
    assert ask(remote).text == "hello"  # without a key, and nobody is there
    with pytest.raises(ExplorerError, match=r"no reply to explore for 's7'.*changed since it was recorded"):
        ask(remote, "s7")


def test_a_killed_evolution_repeats_no_call_that_was_answered(make: Make, tmp_path: Path) -> None:
    asked: Counter[str] = Counter()

    def answer(request: dict[str, Any], number: int) -> Answer:
        asked[request["messages"][0]["content"]] += 1
        return says("hello", delay=0.05)

    cassette = tmp_path / "cassette.jsonl"
    with FakeEndpoint(answer) as fake:
        command = [sys.executable, "-m", "tests.endpoint.asking_child", fake.url, str(cassette), "40"]
        child = subprocess.Popen(command, cwd=ROOT)
        try:
            deadline = time.monotonic() + 60
            while not (cassette.exists() and cassette.read_bytes().count(b"\n") >= 12):
                assert time.monotonic() < deadline, "the child asks nothing"
                assert child.poll() is None, "the child ended by itself"
                time.sleep(0.01)
        finally:
            child.kill()
        assert child.wait(10) == -signal.SIGKILL
        answered = [json.loads(line)["subject"] for line in cassette.read_bytes().split(b"\n")[:-1]]
        before = Counter(asked)
        assert 12 <= len(answered) < 40
        subprocess.run(command, cwd=ROOT, check=True, timeout=60)
    again = {subject for subject in answered if asked[subject] > before[subject]}
    assert not again
    assert len(asked) == 40
    assert sum((asked - before).values()) == 40 - len(answered)


def test_a_cancelled_question_leaves_nothing_and_can_be_asked_again(make: Make, tmp_path: Path) -> None:
    async def cancelled(endpoint: Endpoint) -> None:
        async with asyncio.timeout(0.5):
            await endpoint.ask("explore", "s1", [{"role": "user", "content": "go"}])

    with FakeEndpoint(lambda request, number: says("hello", delay=60 if number == 0 else 0)) as fake:
        endpoint = make(fake)
        with pytest.raises(TimeoutError):
            run_async(cancelled(endpoint))
        assert not (tmp_path / "cassette.jsonl").exists()
        assert ask(endpoint).status == "ok"
