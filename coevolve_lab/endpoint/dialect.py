"""What an endpoint understands: endpoints call themselves compatible and differ in which parameters they accept."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from coevolve_lab.endpoint.exchange import Prompt
from coevolve_lab.endpoint.schema import strict


@dataclass(frozen=True)
class Dialect:
    """schema: JSON schemas are sent as ``response_format``, otherwise written into the prompt. temperature: one may be
    chosen. length: the parameter that bounds a reply ("max_completion_tokens" at endpoints of reasoning models)."""

    schema: bool = True
    temperature: bool = True
    length: str = "max_tokens"

    def parameters(self, prompt: Prompt) -> dict[str, Any]:
        """The request."""
        sent: dict[str, Any] = {"model": prompt.model, "messages": list(prompt.messages)}
        sent[self.length] = prompt.max_tokens
        if self.temperature:
            sent["temperature"] = prompt.temperature
        if prompt.tools:
            sent["tools"] = list(prompt.tools)
        if prompt.schema is not None and self.schema:
            inner = {"name": prompt.role, "strict": True, "schema": strict(prompt.schema)}
            sent["response_format"] = {"type": "json_schema", "json_schema": inner}
        elif prompt.schema is not None:
            sent["messages"] = _with_schema(prompt.messages, prompt.schema)
        return sent

    def simpler(self, prompt: Prompt, complaint: str) -> tuple[Dialect, str] | None:
        """After a 400 or 422: what to try instead, and how to say so. None when nothing is left to leave out."""
        if self.length == "max_tokens" and "max_completion_tokens" in complaint:
            return replace(self, length="max_completion_tokens"), "the endpoint wants max_completion_tokens"
        if self.temperature and "temperature" in complaint:
            return replace(self, temperature=False), "the endpoint lets no temperature be chosen"
        if self.schema and prompt.schema is not None:
            return replace(self, schema=False), "the endpoint takes no response_format: the prompt holds the schema"
        return None


def _with_schema(messages: Sequence[Mapping[str, Any]], schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    wanted = (
        "Answer with one JSON value and nothing else, no prose and no code fence. It must fit this JSON schema:\n"
        + json.dumps(schema, ensure_ascii=False)
    )
    last = messages[-1] if messages else {}
    if last.get("role") == "user" and isinstance(last.get("content"), str):  # some templates refuse two in a row
        return [*messages[:-1], {**last, "content": f"{last['content']}\n\n{wanted}"}]
    return [*messages, {"role": "user", "content": wanted}]
