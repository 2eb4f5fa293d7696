from __future__ import annotations

import pytest

from coevolve_lab.evolution.llm.actions import MAX_ACTION_CHARS, STOP, read_action

CALL = "cd(folder='a b')"


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        (f"I look.\n```\n{CALL}\n```", CALL),
        (f"I look.\n```python\n  {CALL}\n  ```\n", CALL),
        (f"First I thought\n```\nls()\n```\nbut no:\n```py\n{CALL}\n```", CALL),
        (f"```{CALL}```", CALL),
        (f"Reason first.\nAction: {CALL}", CALL),
        (f"Reason first.\n**Action:** `{CALL}`", CALL),
        (f"Reason first.\n{CALL}", CALL),
        (f"[{CALL}, ls()]", f"[{CALL}, ls()]"),
        ("I buy it.\nclick[Buy Now]", "click[Buy Now]"),
        (
            'So:\n<tool_call>\n{"name": "ls", "arguments": {}}\n</tool_call>',
            '<tool_call>\n{"name": "ls", "arguments": {}}\n</tool_call>',
        ),
        ("All is seen.\n```\nSTOP\n```", STOP),
        ("STOP", STOP),
        ("Action: STOP.", STOP),
    ],
)
def test_the_action_is_found(reply: str, action: str) -> None:
    assert read_action(reply) == action


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "I would call ls() and then stop.",
        "```\n\n```",
        "```\nunclosed",
        f"```\n{'x' * (MAX_ACTION_CHARS + 1)}\n```",
        "Please STOP that now",
    ],
)
def test_words_are_no_action(reply: str) -> None:
    assert read_action(reply) is None


@pytest.mark.parametrize(
    "piece", ["`", "```\n", " ", "```\n" + " " * 1000, "action", ":", "[", "a(", "<tool_call>", "*\n"]
)
def test_endless_replies_are_read_in_linear_time(piece: str) -> None:
    text = (piece * 200_000)[:200_000]
    for reply in (text, "```\n" + text, "action:" + text):
        found = read_action(reply)
        assert found is None or len(found) <= MAX_ACTION_CHARS
