"""A fake endpoint: the HTTP protocol of chat completions on a free port of this machine, told what to answer.

    def answer(request: dict, number: int) -> Answer: ...
    with FakeEndpoint(answer) as fake:
        fake.url, fake.requests, fake.most_at_once

``answer`` gets the request's JSON and its number (from 0) and returns an ``Answer``; the functions below make the usual
and the unusual ones. Everything runs on one event loop in a thread, so that hundreds of slow requests cost nothing.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

MODEL = "fake-1"


@dataclass(frozen=True)
class Answer:
    """status: of HTTP. delay: seconds before it. declared: Content-Length, when it is to be a lie."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    declared: int | None = None
    drop: bool = False  # close the connection without a word


def completion(message: Mapping[str, Any], finish: str = "stop", **changes: Any) -> dict[str, Any]:
    """A chat completion's JSON around a message. changes: of the top level."""
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    whole = {"id": "c1", "object": "chat.completion", "created": 1, "model": MODEL, "choices": [choice], "usage": usage}
    return {**whole, **changes}


def of(whole: Any, **changes: Any) -> Answer:
    """Any JSON as an answer."""
    return Answer(json.dumps(whole).encode(), **changes)


def says(text: str, delay: float = 0.0) -> Answer:
    return of(completion({"content": text}), delay=delay)


def says_json(value: Any, delay: float = 0.0) -> Answer:
    return says(json.dumps(value), delay)


def calls(*named: tuple[str, str], text: str | None = None) -> Answer:
    """Tool calls: names and arguments, the latter as the text that the model wrote."""
    listed = [
        {"id": f"call_{i}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for i, (name, arguments) in enumerate(named)
    ]
    return of(completion({"content": text, "tool_calls": listed}, "tool_calls"))


def fails(status: int, message: str = "no", **headers: str) -> Answer:
    """An error as OpenAI words it; underscores in header names become dashes."""
    body = json.dumps({"error": {"message": message, "type": "fake", "code": None}}).encode()
    return Answer(body, status, {name.replace("_", "-"): value for name, value in headers.items()})


def refuses(text: str = "I cannot help with that.") -> Answer:
    return of(completion({"content": None, "refusal": text}))


def stops_at_length(text: str) -> Answer:
    return of(completion({"content": text}, "length"))


def breaks_off(text: str = "some words") -> Answer:
    """Half a body, then the connection closes."""
    whole = says(text).body
    return Answer(whole[: len(whole) // 2], declared=len(whole))


def half_json(text: str = "some words") -> Answer:
    """A body of the right length whose JSON ends in the middle."""
    whole = says(text).body
    return Answer(whole[: len(whole) // 2])


DROPS = Answer(drop=True)
NO_CHOICES = of(completion({}, choices=[]))


class FakeEndpoint:
    """Serves while the ``with`` block runs. requests: the JSON of every completion asked for, in order of arrival."""

    def __init__(self, answer: Callable[[dict[str, Any], int], Answer]) -> None:
        self._answer = answer
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.at_once = 0
        self.most_at_once = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fake-endpoint", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        serving = asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=512)
        self._server = asyncio.run_coroutine_threadsafe(serving, self._loop).result(10)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    def __exit__(self, *_: Any) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client gave up, or the test is over
        finally:
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request on a connection. False: the connection ends with it."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        method, path, _ = head[0].split(" ")
        if (method, path) == ("GET", "/v1/models"):
            answer = of({"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "fake"}]})
        elif (method, path) == ("POST", "/v1/chat/completions"):
            answer = await self._completion(json.loads(body), headers)
        else:
            answer = fails(404, f"no {path} here")
        if answer.drop:
            return False
        length = len(answer.body) if answer.declared is None else answer.declared
        lines = [f"HTTP/1.1 {answer.status} Fake", "Content-Type: application/json", f"Content-Length: {length}"]
        lines += [f"{name}: {value}" for name, value in answer.headers.items()]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + answer.body)
        await writer.drain()
        return answer.declared is None

    async def _completion(self, request: dict[str, Any], headers: dict[str, str]) -> Answer:
        number = len(self.requests)
        self.requests.append(request)
        self.headers.append(headers)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            answer = self._answer(request, number)
            await asyncio.sleep(answer.delay)
        finally:
            self.at_once -= 1
        return answer
