from __future__ import annotations

import time

import pytest

from coevolve_lab.evolution.llm.grounding import Grounding

EVIDENCE = [
    "user: Move 'final report.txt' to archive/2024, then post \"it's done\"",
    "[1] action: mv(source='final report.txt', destination='archive')",
    '    error: {"error": "mv: cannot move: no such directory archive"}',
    "[2] action: close_ticket(ticket_id=1042, note='paid 12,500.50')",
    "- authenticate_twitter(username: string)",
]


@pytest.fixture(scope="module")
def grounding() -> Grounding:
    return Grounding(EVIDENCE)


@pytest.mark.parametrize(
    "statement",
    [
        "mv",
        "mv > close_ticket",
        "The agent moved a file and didn't look at where it's going.",
        "It called mv with 'archive' and got \"no such directory\".",
        "`mv(source='final report.txt', destination='archive')` failed.",
        '`mv(destination = "archive", source = "final report.txt")` spells the same call another way.',
        "close_ticket was given 1042 and 12500.5, not 7 tickets.",
        "authenticate_twitter comes first (e.g. before posting).",
        "It should have used `authenticate_twitter()`.",
        "The path archive/2024 was left out.",
        "",
    ],
)
def test_what_occurs_is_grounded(grounding: Grounding, statement: str) -> None:
    assert grounding.missing([statement]) == []


@pytest.mark.parametrize(
    ("statement", "lost"),
    [
        ("rmdir", ["rmdir"]),
        ("mv > rmdir, close_ticket -> wc", ["rmdir", "wc"]),
        ("It called rm(path) and mv(source).", ["rm"]),
        ("delete_ticket is what failed.", ["delete_ticket"]),
        ("The file notes.md was lost.", ["notes.md"]),
        ("The path archive/2023 was used.", ["archive/2023"]),
        ("Ticket 104 was closed.", ["104"]),
        ("It answered 'permission denied'.", ["permission denied"]),
        ("`mv(source='other.txt')` failed.", ["other.txt"]),
        ("sendMessage and postTweet were mixed up.", ["sendMessage", "postTweet"]),
        ("`rm` was called on `final report`, then `rm` again.", ["rm"]),
    ],
)
def test_what_does_not_occur_is_named_once(grounding: Grounding, statement: str, lost: list[str]) -> None:
    assert grounding.missing([statement, statement]) == lost


def test_hostile_statements_take_bounded_time(grounding: Grounding) -> None:
    began = time.process_time()
    for piece in ("'", "`a", "a_", "1,", "a.", "/", "(", "\\", "'a ("):
        grounding.missing([(piece * 600)[:600]] * 20)
    assert time.process_time() - began < 30
