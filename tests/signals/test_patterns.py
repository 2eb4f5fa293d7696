from __future__ import annotations

import json
from pathlib import Path

import pytest

from coevolve_lab.signals import action_patterns

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "vectors.json").read_text())["patterns"]


def test_patterns_match_the_vectors() -> None:
    for case in VECTORS:
        assert action_patterns(case["tools"], case["kind"]) == [tuple(p) for p in case["expected"]]


def test_a_repeated_call_is_a_pattern_once() -> None:
    assert action_patterns(("ls", "ls", "ls")) == [("ls", "ls")]
    assert action_patterns(["ls", "ls"], "tool") == [("ls",)]


@pytest.mark.parametrize("tools", [[], ["cd"], ["cd", "ls"]])
def test_an_unknown_kind_is_an_error_whatever_the_calls(tools: list[str]) -> None:
    with pytest.raises(ValueError, match="trigram"):
        action_patterns(tools, "trigram")
