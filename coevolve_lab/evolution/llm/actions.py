"""Finds the one action in a model's reply, which reasons first. What the action means is the environment's to say."""

from __future__ import annotations

import re

MAX_ACTION_CHARS = 20_000
STOP = "STOP"  # written in place of an action when nothing is left to do
# Every pattern takes time linear in the reply, whose length only the endpoint bounds.
_FENCE = re.compile(r"```[^\n`]*\n(.*?)```", re.DOTALL)
_INLINE_FENCE = re.compile(r"```([^\n`]+)```")
_TOOL_CALLS = re.compile(r"<tool_call>.*", re.DOTALL)
_LABEL = re.compile(r"^[*_#>\s-]{0,10}action[*_\s]{0,10}:[*_\s`]{0,10}", re.IGNORECASE)
_CALL_LINE = re.compile(r"\[?[A-Za-z_]\w*\s*(?:\(.*\)|\[.*\])\]?")


def read_action(reply: str) -> str | None:
    """The action of a reply, ``STOP``, or None if it holds none.

    In order of preference: the last code block; JSON in <tool_call> tags; the last line, if it is a call, with or
    without the label "Action:".

    >>> read_action("I look around first." + chr(10) + "Action: ls(a=True)")
    'ls(a=True)'
    """
    blocks = _FENCE.findall(reply) or _INLINE_FENCE.findall(reply)
    if blocks:
        action = str(blocks[-1]).strip()
    elif found := _TOOL_CALLS.search(reply):
        action = found[0].strip()
    else:
        lines = [line.strip() for line in reply.splitlines() if line.strip()]
        action = _LABEL.sub("", lines[-1]).strip("`* ") if lines else ""
        if action.strip(".") != STOP and not _CALL_LINE.fullmatch(action):
            return None
    if action.strip(".") == STOP:
        return STOP
    return action if 0 < len(action) <= MAX_ACTION_CHARS else None
