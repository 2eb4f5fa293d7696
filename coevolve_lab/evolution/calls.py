"""Reading solution calls: which tools they name, and one spelling for equal calls. Parsed, never evaluated."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from coevolve_lab.environments.programs import UnreadableProgram, api_names, marked_program, parsed, printed

MAX_CALL_CHARS = 20_000  # longer text is compared as it is, not parsed
_JSON_CALL = re.compile(r'"name"\s*:\s*"([\w.]+)"')


@lru_cache(maxsize=65_536)
def called_tools(call: str) -> tuple[str, ...]:
    """Names of the tools that one action calls, in order of appearance; () if none can be read.

    Of a program against ``apis`` they are the APIs that it calls, without the Python around them.

    >>> called_tools("[cd(folder='a'), ls()]")
    ('cd', 'ls')
    >>> called_tools("print(apis.phone.show_alarms(access_token=token))")
    ('phone.show_alarms',)
    """
    apis = api_names(_program(call)) if len(call) <= MAX_CALL_CHARS else ()
    if apis:
        return apis
    named = _JSON_CALL.findall(call[:MAX_CALL_CHARS])
    if named:
        return tuple(named)
    tree = _parsed(call)
    if tree is None:
        return ()
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    found.sort(key=lambda node: (node.lineno, node.col_offset))
    names = [name for node in found if (name := printed(node.func)) is not None]
    return tuple(names) if len(names) == len(found) else ()


@lru_cache(maxsize=65_536)
def canonical_call(call: str) -> str:
    """The call with spaces, quotes and keyword order normalised.

    Text that is no Python, or that Python can read but not print, only loses extra spaces.
    """
    tree = _parsed(call)
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Call):
            node.keywords.sort(key=lambda keyword: keyword.arg or "")
    text = printed(tree) if tree else None
    return " ".join(call.split()) if text is None else text


def solution_key(start: Mapping[str, Any], solution: Iterable[Iterable[str]]) -> str:
    """Equal for solutions that make the same calls from the same start, however they are spelled or cut into turns."""
    calls = [canonical_call(call) for turn in solution for call in turn]
    return json.dumps([start_key(start), calls])


def start_key(start: Mapping[str, Any]) -> str:
    """One spelling of a start state."""
    return json.dumps(start, sort_keys=True, default=str)


def solution_tools(solution: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """Distinct tools of a solution, in order of first use."""
    return tuple(dict.fromkeys(name for turn in solution for call in turn for name in called_tools(call)))


def _parsed(call: str) -> ast.Module | None:
    return parsed(_program(call)) if len(call) <= MAX_CALL_CHARS else None


def _program(call: str) -> str:
    """The program that a fence or a call of the one tool marks as such, else the call itself."""
    try:
        marked = marked_program(call)
    except UnreadableProgram:
        return call
    return call if marked is None else marked
