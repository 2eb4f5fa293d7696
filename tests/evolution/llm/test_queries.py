from __future__ import annotations

import pytest

from coevolve_lab.evolution.llm.queries import FAULTS, MAX_QUERY_CHARS, query_fault

TOOLS = ["sort", "close_ticket", "put"]


@pytest.mark.parametrize(
    "messages",
    [
        ("Sort the lines of report.txt (the long one), then close ticket 7.", "Put (or push) it back, please."),
        ("Is x = 3 larger than y = 2?",),
        ("x" * MAX_QUERY_CHARS,),
    ],
)
def test_a_users_words_pass(messages: tuple[str, ...]) -> None:
    assert query_fault(messages, TOOLS) == ""
    assert query_fault(messages, []) == ""


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        (" \n", "empty"),
        ("x" * (MAX_QUERY_CHARS + 1), "long"),
        ("Use sort(file) here", "syntax"),
        ("Use put(it) here", "syntax"),
        ("Please close_ticket 7", "syntax"),
        ("Do <tool_call> this", "syntax"),
        ('Do {"name": "sort"}', "syntax"),
        ("with key='a'", "syntax"),
        ("run other_tool(1)", "syntax"),
        ("```ls```", "syntax"),
    ],
)
def test_other_words_are_refused(message: str, fault: str) -> None:
    assert query_fault(["Sort it.", message], TOOLS) == fault
    assert fault in FAULTS
