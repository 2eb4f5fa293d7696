"""Whatever an endpoint does becomes a status; nothing is raised, lost, asked twice or told to anybody."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from coevolve_lab.config import EndpointConfig
from coevolve_lab.endpoint import Cassette, Endpoint, Limits, ToolCall, run_async
from coevolve_lab.endpoint.wire import MAX_BODY, MAX_ERROR, RefusedError, Wire
from coevolve_lab.errors import ExplorerError, PrerequisiteError
from tests.endpoint.conftest import GOOD, KEY, SCHEMA, Make, ask, everyone
from tests.fake_endpoint import (
    DROPS,
    NO_CHOICES,
    Answer,
    FakeEndpoint,
    breaks_off,
    calls,
    completion,
    fails,
    half_json,
    of,
    refuses,
    says,
    says_json,
    stops_at_length,
)


@pytest.mark.parametrize(
    ("answer", "status", "detail"),
    [
        (says("hello"), "ok", ""),
        (says("<think>hm</think>hello"), "ok", ""),
        (refuses("Never."), "refused", "Never."),
        (of(completion({"content": ""}, "content_filter")), "refused", "content filter"),
        (NO_CHOICES, "empty", "choices is empty"),
        (says(" \n"), "empty", "neither text nor tool calls"),
        (says("<think>only this"), "empty", "nothing but reasoning"),
        (of(completion({"content": None})), "empty", "neither"),
        (half_json(), "malformed", "no chat completion"),
        (Answer(b""), "malformed", "no chat completion"),
        (Answer(b"<html>busy</html>"), "malformed", "no chat completion"),
        (Answer(b"\xff\xfe\x00"), "malformed", "no chat completion"),
        (Answer(b"[" * 100_000), "malformed", "nested"),
        (Answer(b'{"choices": ' + b'{"a":' * 5000 + b"1" + b"}" * 5001), "malformed", "nested"),
        (of([1, 2]), "malformed", "not an object"),
        (of({"object": "error", "message": "x"}), "malformed", "no choices"),
        (of(completion({}, choices="no")), "malformed", "no choices"),
        (of(completion({}, choices=[7])), "malformed", "no message"),
        (of(completion({}, choices=[{"message": "text"}])), "malformed", "no message"),
        (of(completion({"content": 7})), "malformed", "neither text"),
        (of(completion({"content": [{"type": "text", "text": 7}]})), "malformed", "neither text"),
        (of(completion({"content": None, "tool_calls": "x"})), "malformed", "tool_calls"),
        (of(completion({"content": None, "tool_calls": [{}] * 65})), "malformed", "tool_calls"),
        (of(completion({"content": None, "tool_calls": [{"function": {"arguments": "{}"}}]})), "malformed", "function"),
        (stops_at_length("half a sent"), "cut", "max_tokens"),
        (says("x" * 400_000), "cut", "200000 were kept"),
        (says("x" * 10_000_000), "cut", "longer than 8388608 bytes"),
        (of(completion({"content": "x"}, usage=None)), "ok", "estimated"),
        (of(completion({"content": "x"}, usage={"prompt_tokens": -1, "completion_tokens": "many"})), "ok", "estimated"),
        (fails(400, "context too long"), "error", "context too long"),
        (fails(418), "error", "HTTP 418"),
        (fails(500, "broken", Retry_After="0.01"), "error", "HTTP 500: Error code: 500"),
        (fails(429, "slow down", Retry_After="0.01"), "error", "slow down"),
        (fails(429, "slow down", Retry_After="9999"), "error", "slow down"),
        (fails(502, "x", Retry_After="soon", x_should_retry="false"), "error", "HTTP 502"),
        (Answer(b"[" * 100_000, 400), "error", "HTTP 400"),
        (Answer(b"half", 400, declared=1000), "error", "no whole response"),
        (Answer(b"no gzip", 400, {"Content-Encoding": "gzip"}), "error", "no whole response"),
        (Answer(b"no gzip", 200, {"Content-Encoding": "gzip"}), "error", "no whole response"),
        (Answer(b"", 307, {"Location": "http://[bad"}), "error", "HTTP 307"),
        (Answer(b"", 307, {"Location": "/v1/chat/completions"}), "error", "HTTP 307"),
    ],
)
def test_whatever_comes_back_has_a_status(make: Make, answer: Answer, status: str, detail: str) -> None:
    with FakeEndpoint(lambda request, number: answer) as fake:
        endpoint = make(fake)
        reply = ask(endpoint)
    assert reply.status == reply.call.status == status
    assert detail in reply.call.detail
    assert endpoint.drain() == [reply.call]
    assert reply.call.attempts == len(fake.requests)
    assert len(reply.text) <= 200_000


def test_text_that_cannot_be_stored_is_made_storable(make: Make) -> None:
    body = b'{"choices":[{"message":{"content":"a\\ud800b\\u0000c"}}]}'
    with FakeEndpoint(
        lambda request, number: Answer(body) if number == 0 else says('{"name":"\\ud800","steps":[]}')
    ) as f:
        endpoint = make(f)
        assert ask(endpoint, text="lone \udfff and \x00").text == "a\ufffdb\ufffdc"
        assert ask(endpoint, "s2", schema=SCHEMA).data == {"name": "\ufffd", "steps": []}
        assert f.requests[0]["messages"] == [{"role": "user", "content": "lone \ufffd and \ufffd"}]


def test_tool_calls_come_as_they_were_sent(make: Make) -> None:
    tools = [{"type": "function", "function": {"name": "cd", "parameters": {"type": "object"}}}]
    with FakeEndpoint(
        lambda request, number: calls(("cd", '{"a": "b'), ("rm", "[1]"), text="<think>x</think>ok")
    ) as fake:
        reply = ask(make(fake), tools=tools)
    assert (reply.status, reply.text) == ("ok", "ok")
    assert reply.tool_calls == (ToolCall("call_0", "cd", '{"a": "b'), ToolCall("call_1", "rm", "[1]"))
    assert fake.requests[0]["tools"] == tools


def test_arguments_that_are_no_text_become_json_text(make: Make) -> None:
    listed = [{"function": {"name": "cd", "arguments": {"folder": "a"}}}, {"id": "", "function": {"name": "ls"}}]
    with FakeEndpoint(lambda request, number: of(completion({"content": None, "tool_calls": listed}))) as fake:
        reply = ask(make(fake))
    assert reply.tool_calls == (ToolCall("call_0", "cd", '{"folder": "a"}'), ToolCall("call_1", "ls", "{}"))


def test_what_is_asked_is_what_was_configured(make: Make) -> None:
    with FakeEndpoint(lambda request, number: says_json(GOOD)) as fake:
        endpoint = make(fake, temperature=0.3, max_tokens=77)
        assert ask(endpoint, schema=SCHEMA, temperature=0.0).data == GOOD
        ask(endpoint, "s2")
    first, second = fake.requests
    assert (first["model"], first["max_tokens"], first["temperature"]) == ("fake-1", 77, 0.0)
    sent = first["response_format"]["json_schema"]
    assert sent["strict"]
    assert sent["schema"]["additionalProperties"] is False
    assert second["temperature"] == 0.3
    assert "response_format" not in second
    assert fake.headers[0]["authorization"] == f"Bearer {KEY}"


def test_a_reply_that_does_not_fit_is_repaired_once(make: Make) -> None:
    replies = {0: says('{"name": "n"}'), 1: says('Sure:\n```json\n{"name": "n", "steps": ["a",],}\n```')}
    with FakeEndpoint(lambda request, number: replies[number]) as fake:
        endpoint = make(fake)
        reply = ask(endpoint, schema=SCHEMA)
    assert (reply.status, reply.data) == ("ok", GOOD)
    assert [call.status for call in endpoint.drain()] == ["malformed", "ok"]
    assert [m["role"] for m in fake.requests[1]["messages"]] == ["user", "assistant", "user"]
    assert "lacks 'steps'" in fake.requests[1]["messages"][2]["content"]


def test_a_thousand_malformed_replies_are_a_thousand_counted_failures(make: Make) -> None:
    kinds = [
        says("no json here \ud800\x00"), says('{"name": 7, "steps": []}'), says("[" * 5000), half_json(), NO_CHOICES,
        Answer(b"{" * 9999), of([]), of(completion({}, choices=[7])), says("<think>" * 9), of({}),
    ]  # fmt: skip
    with FakeEndpoint(lambda request, number: kinds[number % len(kinds)]) as fake:
        endpoint = make(fake)
        replies = everyone(endpoint, 1000, schema=SCHEMA)
    assert len(replies) == 1000
    assert {reply.status for reply in replies} == {"malformed", "empty"}
    assert all(reply.data is None for reply in replies)
    recorded = endpoint.drain()
    assert len(recorded) == len(fake.requests) > 1000  # repairs are calls too
    assert len({call.id for call in recorded}) == len(recorded)
    assert Counter(call.subject for call in recorded).keys() == {f"s{i}" for i in range(1000)}
    assert fake.most_at_once <= 32


def test_failures_that_pass_are_retried(make: Make) -> None:
    troubles = [fails(429, Retry_After="0.01"), fails(503, Retry_After="0.01"), says("there")]
    with FakeEndpoint(lambda request, number: troubles[number]) as fake:
        reply = ask(make(fake))
    assert (reply.status, reply.text, reply.call.attempts) == ("ok", "there", 3)


@pytest.mark.parametrize("trouble", [DROPS, breaks_off()], ids=["without a word", "in the middle of a body"])
def test_lost_connections_are_retried(make: Make, trouble: Answer) -> None:
    with FakeEndpoint(lambda request, number: trouble if number == 0 else says("there")) as fake:
        reply = ask(make(fake, limits={"retries": 1}))
    assert (reply.status, reply.text, reply.call.attempts) == ("ok", "there", 2)


@pytest.mark.parametrize("trouble", [DROPS, breaks_off()], ids=["without a word", "in the middle of a body"])
def test_connections_that_are_always_lost_are_an_error(make: Make, trouble: Answer) -> None:
    with FakeEndpoint(lambda request, number: trouble) as fake:
        reply = ask(make(fake, limits={"retries": 1}))
    assert (reply.status, reply.call.attempts) == ("error", 2)
    assert "no whole response from the endpoint" in reply.call.detail


def test_nobody_there_is_an_error(make: Make) -> None:
    reply = ask(make(None, limits={"retries": 0}))
    assert reply.status == "error"
    assert "no whole response from the endpoint" in reply.call.detail


def test_the_wait_that_an_endpoint_asks_for_is_kept(make: Make) -> None:
    arrivals: list[float] = []

    def answer(request: dict[str, Any], number: int) -> Answer:
        arrivals.append(time.monotonic())
        return fails(429, Retry_After="1.2") if number == 0 else says("there")

    with FakeEndpoint(answer) as fake:
        assert ask(make(fake)).status == "ok"
    assert arrivals[1] - arrivals[0] >= 1.2  # by itself the package waits half a second


def test_a_call_that_stalls_ends_at_its_deadline(make: Make) -> None:
    with FakeEndpoint(lambda request, number: says("late", delay=60)) as fake:
        endpoint = make(fake, limits={"call_seconds": 0.5})
        reply = ask(endpoint)
    assert (reply.status, endpoint.exhausted) == ("deadline", "")
    assert "no reply within 0.5 s" in reply.call.detail


def test_a_retry_that_lies_beyond_the_deadline_is_not_waited_for(make: Make) -> None:
    with FakeEndpoint(lambda request, number: fails(429, Retry_After="100")) as fake:
        assert ask(make(fake, limits={"call_seconds": 0.5})).status == "deadline"


def test_an_evolution_stops_at_its_deadline(make: Make) -> None:
    with FakeEndpoint(lambda request, number: says("late", delay=60 if number >= 2 else 0)) as fake:
        endpoint = make(fake, limits={"seconds": 3.0, "connections": 2})
        replies = everyone(endpoint, 6)
    assert Counter(reply.status for reply in replies) == {"ok": 2, "deadline": 4}
    assert endpoint.exhausted == "deadline"
    assert len(fake.requests) == 4


@pytest.mark.parametrize(("limits", "name"), [({"tokens": 300}, "tokens"), ({"cost": 0.0003}, "cost")])
def test_budgets_stop_an_evolution_with_what_it_has(make: Make, limits: dict[str, float], name: str) -> None:
    with FakeEndpoint(lambda request, number: says("hello")) as fake:
        endpoint = make(fake, limits={"connections": 1, **limits}, price_prompt=1.0, price_completion=1.0)
        endpoint.begin(4)
        replies = everyone(endpoint, 5)
        assert [reply.status for reply in replies] == ["ok"] * 3 + ["budget"] * 2  # 120 tokens a call
        assert endpoint.exhausted == name
        assert sum(call.cost for call in endpoint.drain()) == pytest.approx(0.00036)
        endpoint.begin(4)
        assert ask(endpoint, "more").status == "budget"
        endpoint.begin(5)
        assert endpoint.exhausted == ""
        assert ask(endpoint, "more").status == "ok"
    assert len(fake.requests) == 4


def test_an_endpoint_without_schemas_is_asked_in_words(make: Make) -> None:
    def answer(request: dict[str, Any], number: int) -> Answer:
        return fails(400, "response_format is not supported") if "response_format" in request else says_json(GOOD)

    with FakeEndpoint(answer) as fake:
        endpoint = make(fake)
        replies = [ask(endpoint, f"s{i}", schema=SCHEMA) for i in range(3)]
    assert [(reply.data, reply.call.attempts) for reply in replies] == [(GOOD, 2), (GOOD, 1), (GOOD, 1)]
    assert [bool(reply.call.detail) for reply in replies] == [True, False, False]
    assert "takes no response_format" in replies[0].call.detail
    assert '"required"' in fake.requests[1]["messages"][0]["content"]


def test_structured_text_sends_no_schema_to_begin_with(make: Make) -> None:
    with FakeEndpoint(lambda request, number: says_json(GOOD)) as fake:
        assert ask(make(fake, structured="text"), schema=SCHEMA).data == GOOD
    assert "response_format" not in fake.requests[0]


def test_endpoints_of_reasoning_models_get_their_own_parameters(make: Make) -> None:
    def answer(request: dict[str, Any], number: int) -> Answer:
        if "max_tokens" in request:
            return fails(400, "Unsupported parameter: use 'max_completion_tokens' instead")
        return fails(400, "'temperature' does not support 0.7") if "temperature" in request else says_json(GOOD)

    with FakeEndpoint(answer) as fake:
        endpoint = make(fake)
        assert ask(endpoint, schema=SCHEMA).call.attempts == 3
        assert ask(endpoint, "s2", schema=SCHEMA).call.attempts == 1
    assert "response_format" in fake.requests[-1]
    assert fake.requests[-1]["max_completion_tokens"] == 4096


@pytest.mark.parametrize(("code", "named"), [(401, "OPENAI_API_KEY"), (403, "OPENAI_API_KEY"), (404, "fake-1")])
def test_what_no_call_can_get_past_is_raised_and_names_the_remedy(make: Make, code: int, named: str) -> None:
    with FakeEndpoint(lambda request, number: fails(code, f"your key {KEY} or model is wrong")) as fake:
        with pytest.raises(ExplorerError, match=named) as raised:
            ask(make(fake))
        assert fake.url in str(raised.value)
    assert KEY not in str(raised.value)


def test_a_remote_endpoint_needs_a_key_and_an_address(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(ExplorerError, match=r"https://host\.example/v1 needs a key .* OPENAI_API_KEY"):
        ask(make(None, base_url="https://host.example/v1"))
    with pytest.raises(ExplorerError, match="is not an address"):
        ask(make(None, base_url="host.example"))
    with FakeEndpoint(lambda request, number: says("hello")) as fake:
        assert ask(make(fake)).status == "ok"
    monkeypatch.setenv("OPENAI_API_KEY", "kéy-with-an-accent")
    with pytest.raises(ExplorerError, match="cannot be sent"):
        ask(make(None), "another")


def test_unknown_roles_are_named(make: Make) -> None:
    with pytest.raises(ExplorerError, match="no endpoint for role 'paint'; there are reflect, explore"):
        ask(make(None), role="paint")


def test_the_key_is_in_nothing_that_is_kept(make: Make, tmp_path: Path) -> None:
    escaped = Answer(says(f"you sent {KEY}").body.replace(b"sk-", rb"\u0073k-"))
    answers = [
        says(f"you sent {KEY}"), calls((KEY, f'{{"k": "{KEY}"}}')), fails(400, f"bad {KEY}"), refuses(KEY), escaped,
        of({"error": "x" * 175 + KEY}), refuses("x" * 190 + KEY), DROPS,
    ]  # fmt: skip
    with FakeEndpoint(lambda request, number: answers[number]) as fake:
        endpoint = make(fake, limits={"retries": 0})
        replies = [ask(endpoint, f"s{i}", text=f"the key is {KEY}") for i in range(len(answers))]
    statuses = ["ok", "ok", "error", "refused", "ok", "malformed", "refused", "error"]
    assert [reply.status for reply in replies] == statuses
    kept = repr(replies) + repr(endpoint.drain()) + (tmp_path / "cassette.jsonl").read_text()
    assert KEY[:6] not in kept  # nor a part of it, where a text was cut
    assert fake.url not in kept
    assert replies[0].text == replies[4].text == "you sent [key]"


def test_connections_bound_how_many_are_in_flight(make: Make) -> None:
    with FakeEndpoint(lambda request, number: says("hello", delay=0.05)) as fake:
        assert {reply.status for reply in everyone(make(fake, limits={"connections": 5}), 30)} == {"ok"}
    assert fake.most_at_once == 5


def test_roles_may_ask_different_models(tmp_path: Path) -> None:
    with FakeEndpoint(lambda request, number: says("hello")) as fake:
        names = {"reflect": "fake-2", "explore": "fake-1"}
        roles = {role: EndpointConfig(model=name, base_url=fake.url) for role, name in names.items()}
        endpoint = Endpoint(roles, Limits(), Cassette(tmp_path / "cassette.jsonl"))
        ask(endpoint, role="reflect")
        ask(endpoint)
    assert [request["model"] for request in fake.requests] == ["fake-2", "fake-1"]
    assert [call.model for call in endpoint.drain()] == ["fake-2", "fake-1"]


def test_without_the_package_the_command_that_installs_it_is_named(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(PrerequisiteError, match="pip install 'coevolve-lab\\[llm\\]'"):
        ask(make(None))


def test_the_fake_lists_its_model() -> None:
    with (
        FakeEndpoint(lambda request, number: says("hello")) as fake,
        urlopen(f"{fake.url}/models", timeout=10) as reply,
    ):
        assert json.load(reply)["data"][0]["id"] == "fake-1"


def test_what_is_too_long_to_be_read_is_paid_for_all_the_same(make: Make) -> None:
    with FakeEndpoint(lambda request, number: Answer(b" " * (MAX_BODY + 1))) as fake:
        endpoint = make(fake, limits={"tokens": 10})
        assert ask(endpoint, "s0").status == "cut"
        assert ask(endpoint, "s1").status == "budget"
        assert len(fake.requests) == 1


def test_no_more_than_the_beginning_of_an_errors_body_is_read(make: Make) -> None:
    async def refused(url: str) -> int:
        wire = Wire(1, 0)
        try:
            message = [{"role": "user", "content": "go"}]
            await wire.post(EndpointConfig(model="m", base_url=url), {"model": "m", "messages": message}, [0])
        except RefusedError as error:
            return len(error.__cause__.response.content)  # type: ignore[union-attr]
        finally:
            await wire.close()
        raise AssertionError("it was not refused")

    with FakeEndpoint(lambda request, number: Answer(b"x" * (MAX_ERROR + 5_000_000), status=418)) as fake:
        assert 0 < run_async(refused(fake.url)) <= MAX_ERROR
        assert ask(make(fake)).status == "error"


def test_a_role_goes_on_being_asked_in_its_own_way(make: Make) -> None:
    def strict(request: dict[str, Any], number: int) -> Answer:
        return fails(400, "use max_completion_tokens instead") if "max_tokens" in request else says_json(GOOD)

    with FakeEndpoint(strict) as fake:
        guided = make(fake)
        guided._endpoints["explore"] = guided._endpoints["explore"].model_copy(update={"structured": "text"})
        assert ask(guided, "s0", role="reflect", schema=SCHEMA).status == "ok"
        assert ask(guided, "s1", role="explore", schema=SCHEMA).status == "ok"
        assert "response_format" in fake.requests[1]
        assert "response_format" not in fake.requests[-1]
