"""One question to a model and what came back, as plain data: what is sent, and what a response's body says.

A body comes from a remote machine and is trusted in nothing: its shape, its types and its size are checked here, and
whatever is wrong with it becomes a status.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from coevolve_lab.endpoint.text import decode

MAX_TEXT = 200_000  # characters of one reply that are kept
MAX_TOOL_CALLS = 64
_CHARACTERS_PER_TOKEN = 4  # a rough rule, for endpoints that report no usage


@dataclass(frozen=True)
class Prompt:
    """All that makes a question. schema: of the JSON value that is wanted; tools: OpenAI-style schemas."""

    role: str
    subject: str
    model: str
    messages: Sequence[Mapping[str, Any]]
    schema: Mapping[str, Any] | None
    tools: Sequence[Mapping[str, Any]] | None
    temperature: float
    max_tokens: int

    def new_messages(self) -> list[Mapping[str, Any]]:
        """The messages since the model last spoke; earlier ones were new in an earlier question."""
        last = max((i for i, message in enumerate(self.messages) if message.get("role") == "assistant"), default=-1)
        return list(self.messages[last + 1 :])


@dataclass(frozen=True)
class ToolCall:
    """A call that the model asks for. arguments: JSON text as sent, which may be broken."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Exchange:
    """What came back. status as in ModelCall, before anything is known about the text itself.

    text: as written, reasoning blocks included. limit: the evolution's limit that ended it ("deadline", "tokens",
    "cost"), "" when none did.
    """

    status: str
    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0
    attempts: int = 0
    detail: str = ""
    limit: str = ""

    def to_line(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_line(cls, line: Mapping[str, Any]) -> Exchange:
        return cls(**{**line, "tool_calls": tuple(ToolCall(**call) for call in line["tool_calls"])})


def read_body(body: bytes, prompt: Prompt) -> Exchange:
    """What the body of a chat completion says. Never raises; an unreadable body is "malformed"."""
    try:
        answer = decode(body)
        if not isinstance(answer, dict):
            raise ValueError("it is not an object")
    except ValueError as error:
        return estimated(Exchange("malformed", detail=f"the response's body is no chat completion: {error}"), prompt)
    exchange = _read_choice(answer)
    usage = answer.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    sent, written = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    if sent is None or written is None:
        return estimated(exchange, prompt)
    return replace(exchange, prompt_tokens=sent, completion_tokens=written)


def _read_choice(answer: Mapping[str, Any]) -> Exchange:
    choices = answer.get("choices")
    if not isinstance(choices, list):
        return Exchange("malformed", detail=f"the response has no choices: {json.dumps(answer)[:200]}")
    if not choices:
        return Exchange("empty", detail="the response's list of choices is empty")
    choice = choices[0] if isinstance(choices[0], dict) else {}
    message = choice.get("message")
    if not isinstance(message, dict):
        return Exchange("malformed", detail="the response's first choice has no message")
    try:
        text, calls = _content(message.get("content")), _tool_calls(message.get("tool_calls"))
    except ValueError as error:
        return Exchange("malformed", detail=str(error))
    refusal, finish = message.get("refusal"), choice.get("finish_reason")
    if isinstance(refusal, str) and refusal:
        return Exchange("refused", text[:MAX_TEXT], detail=refusal[:200])
    if finish == "content_filter":
        return Exchange("refused", text[:MAX_TEXT], detail="the endpoint's content filter ended the reply")
    if len(text) > MAX_TEXT:
        return Exchange("cut", text[:MAX_TEXT], detail=f"{len(text)} characters, of which {MAX_TEXT} were kept")
    if finish == "length":
        return Exchange("cut", text, calls, detail="the reply reached max_tokens")
    if not text.strip() and not calls:
        return Exchange("empty", detail="the reply has neither text nor tool calls")
    return Exchange("ok", text, calls)


def _content(content: Any) -> str:
    """Text, from a string or from a list of parts of which only the text parts are read."""
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list) and all(isinstance(part, dict) for part in content):
        texts = [part.get("text") for part in content if part.get("type") == "text"]
        if all(isinstance(text, str) for text in texts):
            return "".join(texts)
    raise ValueError("the message's content is neither text nor a list of text parts")


def _tool_calls(calls: Any) -> tuple[ToolCall, ...]:
    if calls is None:
        return ()
    if not isinstance(calls, list) or len(calls) > MAX_TOOL_CALLS:
        raise ValueError(f"the message's tool_calls are not a list of at most {MAX_TOOL_CALLS}")
    return tuple(_tool_call(call, index) for index, call in enumerate(calls))


def _tool_call(call: Any, index: int) -> ToolCall:
    function = call.get("function") if isinstance(call, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(function, dict) or not isinstance(name, str) or not name:
        raise ValueError(f"tool call {index} names no function")
    arguments = function.get("arguments")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments if arguments is not None else {})
    if len(text) > MAX_TEXT:
        raise ValueError(f"the arguments of tool call {index} are longer than {MAX_TEXT} characters")
    ident = call.get("id")
    return ToolCall(ident if isinstance(ident, str) and ident else f"call_{index}", name, text)


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 2**40 else None


def estimated(exchange: Exchange, prompt: Prompt) -> Exchange:
    """Token counts from lengths, so that budgets hold at an endpoint that reports none."""
    written = len(exchange.text) + sum(len(call.arguments) for call in exchange.tool_calls)
    sent = len(json.dumps(prompt.messages)) + len(json.dumps(prompt.tools or []))
    detail = "; ".join(filter(None, (exchange.detail, "no usage was reported: tokens are estimated")))
    tokens = (sent // _CHARACTERS_PER_TOKEN, written // _CHARACTERS_PER_TOKEN)
    return replace(exchange, prompt_tokens=tokens[0], completion_tokens=tokens[1], detail=detail)
