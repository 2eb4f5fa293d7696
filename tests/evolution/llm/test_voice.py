from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from coevolve_lab.config import EndpointConfig
from coevolve_lab.endpoint import Cassette, Endpoint, Limits, run_async
from coevolve_lab.evolution import Occasion
from coevolve_lab.evolution.llm.actions import STOP
from coevolve_lab.evolution.llm.prompting import Prompts
from coevolve_lab.evolution.llm.voice import HISTORY_PAIRS, MAX_REPLY_CHARS, Voice, opening, subject
from tests.fake_endpoint import MODEL, Answer, FakeEndpoint, fails, says

Answering = Callable[[dict[str, Any], int], Answer]


def played(tmp_path: Path, answer: Answering, steps: int) -> tuple[list[str | None], Voice, list[dict[str, Any]]]:
    """The actions of an episode of so many steps, and what was asked for them."""
    with FakeEndpoint(answer) as fake:
        config = EndpointConfig(model=MODEL, base_url=fake.url)
        voice = Voice(Endpoint({"explore": config}, Limits(retries=0), Cassette(tmp_path / "c.jsonl")), Prompts())
        messages = opening("the rules", "the start")

        async def play() -> list[str | None]:
            actions = []
            for step in range(steps):
                actions.append(await voice.act("explore", f"e-{step}", messages))
                messages.append({"role": "user", "content": f"result {step}"})
            return actions

        return run_async(play()), voice, fake.requests


def test_a_long_episode_is_sent_with_its_beginning_and_its_latest_steps(tmp_path: Path) -> None:
    steps = HISTORY_PAIRS + 5
    actions, _, requests = played(tmp_path, lambda r, n: says("x" * 9000 + f"\n```\nls({n})\n```"), steps)
    assert actions == [f"ls({n})" for n in range(steps)]
    sent = requests[-1]["messages"]
    assert [m["content"] for m in sent[:2]] == ["the rules", "the start"]
    assert [m["role"] for m in sent[2:]] == ["assistant", "user"] * HISTORY_PAIRS
    assert sent[-1]["content"] == f"result {steps - 2}"
    assert max(len(m["content"]) for m in sent) < MAX_REPLY_CHARS + 100


def test_a_reply_without_an_action_is_asked_for_once_more(tmp_path: Path) -> None:
    actions, voice, requests = played(tmp_path, lambda r, n: says("well" if n != 1 else "```\nSTOP\n```"), 2)
    assert actions == [STOP, None]
    assert "no action in your reply" in requests[1]["messages"][-1]["content"]
    assert [call.status for call in voice.calls()] == ["malformed", "ok", "malformed", "malformed"]
    assert voice.calls() == []


def test_failures_keep_their_own_status(tmp_path: Path) -> None:
    actions, voice, _ = played(tmp_path, lambda r, n: fails(400), 1)
    assert actions == [None]
    assert {call.status for call in voice.calls()} == {"error"}


def test_a_stage_called_again_asks_about_another_subject() -> None:
    assert subject("ctx-r1-0", Occasion(1)) == "ctx-r1-0"
    assert subject("ctx-r1-0", Occasion(1, call=2)) == "ctx-r1-0 call 2"
