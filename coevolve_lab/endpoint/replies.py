"""What whoever asked gets back: an exchange, read for what was wanted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coevolve_lab.endpoint.exchange import Exchange, ToolCall
from coevolve_lab.endpoint.text import decode, read_json, strip_reasoning
from coevolve_lab.records import ModelCall

__all__ = ["Reply", "ToolCall", "read_text"]


@dataclass(frozen=True)
class Reply:
    """status: as in ModelCall; only "ok" holds what was asked for.

    text: without reasoning blocks. data: the JSON value that the schema asked for, fitting it; None without a schema,
    or when the status is not "ok". call: the last request's record.
    """

    status: str
    text: str
    data: Any
    tool_calls: tuple[ToolCall, ...]
    call: ModelCall


def read_text(exchange: Exchange, schema: Mapping[str, Any] | None) -> tuple[str, str, Any, str]:
    """Status, text, data and detail of an exchange, once its text has been read."""
    if schema is None:
        text = strip_reasoning(exchange.text)
    else:
        text = exchange.text.strip() if _is_json(exchange.text) else strip_reasoning(exchange.text)
    if exchange.status != "ok":
        return exchange.status, text, None, exchange.detail
    if not text and not exchange.tool_calls:
        return "empty", "", None, _also(exchange.detail, "nothing but reasoning")
    if schema is None or (exchange.tool_calls and not text):
        return "ok", text, None, exchange.detail
    try:
        return "ok", text, read_json(text, schema), exchange.detail
    except ValueError as error:
        return "malformed", text, None, _also(exchange.detail, str(error))


def _is_json(text: str) -> bool:
    try:
        decode(text)
    except ValueError:
        return False
    return True


def _also(*details: str) -> str:
    return "; ".join(filter(None, details))
