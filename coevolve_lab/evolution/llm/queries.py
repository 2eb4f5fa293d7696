"""Whether a model's words may become what a user says: neither empty nor endless, and asking instead of calling.

Text that gives orders to a judge or a trainer is refused later, with a verdict of its own (``injection.py``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_QUERY_CHARS = 2_000
FAULTS: dict[str, str] = {
    "empty": "a user message says nothing",
    "long": f"a user message is longer than {MAX_QUERY_CHARS} characters",
    "syntax": "a user message names a tool or holds a call, instead of asking for what it does",
}
_SYNTAX = re.compile(r"<\s*/?\s*tool_call|```|\"name\"\s*:\s*\"|\b\w+\s*=\s*['\"]|\b[a-z]+_\w+\(", re.IGNORECASE)


def query_fault(messages: Iterable[str], tools: Iterable[str]) -> str:
    """Why these user messages are refused (a key of ``FAULTS``), "" if they are not.

    tools: names of the environment's tools. One with an underscore is no word of a user's, any other may be.
    """
    # "(?!)" matches nothing
    leaks = re.compile(
        "|".join(rf"(?<!\w){re.escape(name)}" + (r"(?!\w)" if "_" in name else r"\(") for name in tools) or "(?!)"
    )
    for message in messages:
        if not message.strip():
            return "empty"
        if len(message) > MAX_QUERY_CHARS:
            return "long"
        if _SYNTAX.search(message) or leaks.search(message):
            return "syntax"
    return ""
