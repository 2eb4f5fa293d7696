"""From a model's text to calls, and back: parsed, bounded, never evaluated.

Two syntaxes are read: Python (``[f(a=1), g()]``, or bare ``f(a=1)``, in a code fence or not) and JSON
(``<tool_call>{"name": ..., "arguments": {...}}</tool_call>``, several blocks allowed, the last closing tag optional).
A Python action is nothing but calls; text around JSON blocks is ignored, as are ``<think>`` blocks.
Arguments are literals: strings, finite numbers, booleans, None, lists, tuples and dicts with string keys.
"""

from __future__ import annotations

import ast
import json
import keyword
import math
import re
import warnings
from dataclasses import dataclass, field
from typing import Any

MAX_CHARS = 20_000
MAX_CALLS = 32
MAX_DEPTH = 12
MAX_DIGITS = 30

# Python warns of escapes such as "\\d"; here the text is data, and nobody's code.
_FILE_NAME = "<model action>"
warnings.filterwarnings("ignore", module=_FILE_NAME)

_THINK = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)
_FENCE = re.compile(r"```\w*[^\S\n]*\n(.*)```\Z", re.DOTALL)  # linear: the text may be of any length
_LOOKS_LIKE_CALLS = re.compile(r'\[|[A-Za-z_][\w.]*\(|\{\s*"name"\s*:')
_SURROGATE = re.compile("[\ud800-\udfff]")
_TAG, _END_TAG = "<tool_call>", "</tool_call>"


@dataclass(frozen=True)
class Call:
    """One tool call. Values are plain literals; ``args`` are positional, ``kwargs`` by name."""

    name: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)


class MalformedAction(ValueError):
    """A text that tries to call something but cannot be read. The message tells the agent why."""


def parse_action(text: str) -> list[Call]:
    """The calls in a model's text, in order; [] for plain text, which calls nothing.

    Raises MalformedAction, and nothing else, for text that looks like a call but cannot be read.
    """
    text = _THINK.sub("", text).strip()
    if fence := _FENCE.match(text):
        text = fence[1].strip()
    is_json = _TAG in text
    if not is_json and not _LOOKS_LIKE_CALLS.match(text):
        return []
    if len(text) > MAX_CHARS:
        raise MalformedAction(f"the action is longer than {MAX_CHARS} characters")
    try:
        calls = _parse_json(text) if is_json else _parse_python(text)
    except MalformedAction:
        raise
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
        raise MalformedAction(f"the action cannot be read ({type(error).__name__})") from None
    if len(calls) > MAX_CALLS:
        raise MalformedAction(f"more than {MAX_CALLS} calls in one action")
    return calls


def parse_call(text: str) -> Call:
    """The single call that a text such as ``f(a=1)`` holds. Raises MalformedAction otherwise."""
    calls = parse_action(text)
    if len(calls) != 1:
        raise MalformedAction(f"expected one call, got {len(calls)}")
    return calls[0]


def render_call(call: Call) -> str:
    """Canonical Python text of a call; ``parse_call`` gives the same call back."""
    parts = [repr(value) for value in call.args] + [f"{name}={value!r}" for name, value in call.kwargs.items()]
    return f"{call.name}({', '.join(parts)})"


def _parse_python(text: str) -> list[Call]:
    body = ast.parse(text, _FILE_NAME, mode="eval").body
    if isinstance(body, ast.Call):
        return [_call(body)]
    if isinstance(body, ast.List | ast.Tuple):
        calls = [item for item in body.elts if isinstance(item, ast.Call)]
        if len(calls) != len(body.elts):
            raise MalformedAction("a list of calls may hold nothing but calls")
        return [_call(item) for item in calls]
    raise MalformedAction("expected a call or a list of calls, or JSON inside <tool_call> tags")


def _call(node: ast.Call) -> Call:
    if not isinstance(node.func, ast.Name):
        raise MalformedAction("a call must name a tool directly")
    kwargs: dict[str, Any] = {}
    for given in node.keywords:
        if given.arg is None:
            raise MalformedAction("** is not allowed in a call")
        if given.arg in kwargs:
            raise MalformedAction(f"argument {given.arg} is given twice")
        kwargs[given.arg] = _literal(given.value)
    return Call(node.func.id, tuple(_literal(argument) for argument in node.args), kwargs)


def _literal(node: ast.expr, depth: int = 0) -> Any:
    if depth > MAX_DEPTH:
        raise MalformedAction(f"arguments are nested deeper than {MAX_DEPTH} levels")
    match node:
        case ast.Constant(value=value):
            return _scalar(value)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=ast.Constant(value=value)) if type(value) in (int, float):
            value = _scalar(value)
            return -value if isinstance(node.op, ast.USub) else value
        case ast.List(elts=items):
            return [_literal(item, depth + 1) for item in items]
        case ast.Tuple(elts=items):
            return tuple(_literal(item, depth + 1) for item in items)
        case ast.Dict(keys=keys, values=values):
            return {_key(key): _literal(value, depth + 1) for key, value in zip(keys, values, strict=True)}
    raise MalformedAction(f"arguments must be literals, not {type(node).__name__}")


def _key(node: ast.expr | None) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return str(_scalar(node.value))
    raise MalformedAction("keys must be strings")


def _parse_json(text: str) -> list[Call]:
    decoder = json.JSONDecoder(parse_constant=_refuse_constant)
    calls, position = [], text.find(_TAG)
    while position >= 0:
        start = position + len(_TAG)
        start += len(text[start:]) - len(text[start:].lstrip())
        row, end = decoder.raw_decode(text, start)
        rest = text[end:].lstrip()
        if rest and not rest.startswith(_END_TAG):
            raise MalformedAction(f"expected {_END_TAG} after the call")
        calls.append(_json_call(row))
        if len(calls) > MAX_CALLS:
            break
        position = text.find(_TAG, end)
    return calls


def _json_call(row: Any) -> Call:
    if not isinstance(row, dict) or not isinstance(row.get("name"), str):
        raise MalformedAction('a tool call needs {"name": ..., "arguments": {...}}')
    arguments = row.get("arguments", {})
    if not isinstance(arguments, dict):
        raise MalformedAction("arguments must be an object")
    if not all(name.isidentifier() and not keyword.iskeyword(name) for name in (row["name"], *arguments)):
        raise MalformedAction("names must be identifiers")
    return Call(row["name"], (), {name: _json_value(value) for name, value in arguments.items()})


def _json_value(value: Any, depth: int = 0) -> Any:
    if depth > MAX_DEPTH:
        raise MalformedAction(f"arguments are nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, list):
        return [_json_value(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {_scalar(key): _json_value(item, depth + 1) for key, item in value.items()}
    return _scalar(value)


def _scalar(value: Any) -> Any:
    """The value itself, if it is a literal that every later stage can hold, compare and print."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if abs(value) >= 10**MAX_DIGITS:
            raise MalformedAction(f"numbers may have at most {MAX_DIGITS} digits")
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise MalformedAction("numbers must be finite")
        return value
    if isinstance(value, str):
        if _SURROGATE.search(value):
            raise MalformedAction("strings must be valid unicode")
        return value
    raise MalformedAction(f"arguments must be literals, not {type(value).__name__}")


def _refuse_constant(name: str) -> None:
    raise MalformedAction(f"{name} is not a number")
