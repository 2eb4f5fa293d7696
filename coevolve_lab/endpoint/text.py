"""Reading what a model wrote: reasoning taken off, JSON found in prose. The text is hostile: all of it is linear-time.

Text that leaves this module can be stored and shown anywhere: no NUL, no lone surrogates, no bottomless nesting.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from coevolve_lab.endpoint.schema import problem

MAX_DEPTH = 64  # of JSON; deeper is no answer to anything that we ask
_CANDIDATES = 20  # places in a text where JSON is looked for
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_REASONING = re.compile(r"<(/?)(?:think|thinking|reasoning)>", re.IGNORECASE)
# A string, closed or not, or a comma that nothing follows. Possessive: it never looks at a character twice.
_STRING_OR_LAST_COMMA = re.compile(r'"(?:[^"\\]|\\.)*+"?|,(?=\s*+[}\]])', re.DOTALL)
_JSON_BEGINS = re.compile(r"[{\[]")


def strip_reasoning(text: str) -> str:
    """Text outside <think> (or <thinking>, <reasoning>) blocks, stripped.

    A block that is never closed reaches to the end; one that was opened in the prompt, and so is only closed here,
    reaches back to the beginning.
    """
    kept: list[str] = []
    depth = position = 0
    for tag in _REASONING.finditer(text):
        if tag[1]:
            if depth == 0:
                kept = []
            depth = max(0, depth - 1)
        else:
            if depth == 0:
                kept.append(text[position : tag.start()])
            depth += 1
        position = tag.end()
    if depth == 0:
        kept.append(text[position:])
    return "".join(kept).strip()


def read_json(text: str, schema: Mapping[str, Any] | None = None) -> Any:
    """The JSON value in a model's text: the whole text, or the first object or array in it that fits the schema.

    Prose and code fences around it and trailing commas are forgiven. Raises ValueError saying what is wrong with the
    nearest thing to an answer.
    """
    first_wrong = ""
    for value in _values(text):
        wrong = problem(value, schema or {})
        if not wrong:
            return value
        first_wrong = first_wrong or wrong
    if first_wrong:
        raise ValueError(first_wrong)
    raise ValueError(_why_no_json(strip_reasoning(text)))


def clean(value: Any, depth: int = 0) -> Any:
    """The same JSON value with every unstorable character replaced. Raises ValueError beyond ``MAX_DEPTH``."""
    if depth > MAX_DEPTH:
        raise ValueError(f"JSON is nested more than {MAX_DEPTH} deep")
    if isinstance(value, str):
        return _UNSTORABLE.sub("\ufffd", value)
    if isinstance(value, Mapping):
        return {clean(str(key)): clean(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean(item, depth + 1) for item in value]
    return value


def finite_json(text: str | bytes) -> Any:
    """JSON exactly as the standard has it: no NaN, no number beyond a float. Raises ValueError, RecursionError."""
    return json.loads(text, parse_constant=_finite, parse_float=_finite)


def decode(text: str | bytes) -> Any:
    """``finite_json``, cleaned. Raises ValueError for whatever is wrong, its depth included."""
    try:
        return clean(finite_json(text))
    except RecursionError:
        raise ValueError(f"JSON is nested more than {MAX_DEPTH} deep") from None


def _values(text: str) -> Iterator[Any]:
    """JSON values in the text, the likeliest first."""
    try:
        yield decode(text)
        return  # a reply that is JSON as a whole holds no reasoning, whatever tags occur in its strings
    except ValueError:
        pass
    text = strip_reasoning(text)
    begin = _JSON_BEGINS.search(text)
    if begin is None:
        return
    text = text[begin.start() :]
    forgiven = _without_last_commas(text)
    yield from _found(forgiven)
    if forgiven != text:
        yield from _found(text)


def _found(text: str) -> Iterator[Any]:
    """Objects and arrays that begin at the first brackets of the text."""
    decoder = json.JSONDecoder(parse_constant=_finite, parse_float=_finite)
    position = 0
    for _ in range(_CANDIDATES):
        begin = _JSON_BEGINS.search(text, position)
        if begin is None:
            return
        try:
            value, position = decoder.raw_decode(text, begin.start())  # what lies inside it is not looked at again
            value = clean(value)
        except (ValueError, RecursionError):
            position = begin.start() + 1
        else:
            yield value


def _without_last_commas(text: str) -> str:
    return _STRING_OR_LAST_COMMA.sub(lambda found: "" if found[0] == "," else found[0], text)


def _why_no_json(text: str) -> str:
    begin = _JSON_BEGINS.search(text)
    if begin is None:
        return "no JSON in it"
    try:
        json.JSONDecoder().raw_decode(text[begin.start() :])
    except RecursionError:
        return f"JSON is nested more than {MAX_DEPTH} deep"
    except ValueError as error:
        return f"broken JSON: {error}"
    return f"JSON is nested more than {MAX_DEPTH} deep, or holds a number that is not finite"


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{number[:40]} is not a finite number")
    return value
