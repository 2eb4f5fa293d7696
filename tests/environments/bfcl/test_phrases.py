from __future__ import annotations

import inspect
import random
import re
from functools import cache
from itertools import combinations

import pytest

from coevolve_lab.environments.bfcl import api, binding, phrases, worlds
from coevolve_lab.environments.bfcl.calls import MalformedAction, parse_call

ITEM = r"(?:'[^']*'|[\w.@#:/+-]+)"
SLOT = f"({ITEM}(?:(?:, | and ){ITEM})*)"
TOOLS = [tool for tools in binding.TOOLS.values() for tool in tools]


@cache
def _patterns(tool: str) -> list[tuple[phrases.Template, re.Pattern[str]]]:
    return [(template, re.compile(SLOT.join(map(re.escape, template.pieces)))) for template in phrases.templates(tool)]


def _readings(tool: str, text: str) -> set[tuple[tuple[str, str], ...]]:
    """Every way to read a phrase as arguments of a tool, values as they are said."""
    found = set()
    for template, pattern in _patterns(tool):
        if match := pattern.fullmatch(text):
            said = dict(zip(template.slots, match.groups(), strict=True))
            found.add(tuple(sorted((template.condition | said).items())))
    return found


def _said(call_text: str) -> tuple[tuple[str, str], ...]:
    return tuple(
        sorted((name, phrases.say(value)) for name, value in phrases.flat_arguments(parse_call(call_text)).items())
    )


def _calls(rng: random.Random, states: int) -> list[str]:
    calls = []
    for index in range(states):
        start = worlds.random_start("held_out" if index % 2 else "train", api.CLASSES, rng)
        apis = api.load_apis(start)
        calls += [call for tool in worlds.tool_names(start) if (call := binding.bind(apis, tool, rng, start["pool"]))]
    return calls


def test_every_tool_has_at_least_two_wordings_of_each_kind() -> None:
    for tool in TOOLS:
        kinds: dict[tuple[object, ...], int] = {}
        for template in phrases.templates(tool):
            kind = (*sorted(template.condition.items()), *sorted(template.slots))
            kinds[kind] = kinds.get(kind, 0) + 1
        assert kinds, f"{tool} has no wording"
        assert min(kinds.values()) >= 2, tool


def test_a_phrase_says_which_tool_and_which_arguments() -> None:
    """Reading a phrase back over all wordings of all tools leaves exactly the call that it was made from."""
    rng = random.Random(10)
    for call in _calls(rng, 12):
        said = phrases.phrase(call, rng)
        readings = {(tool, reading) for tool in TOOLS for reading in _readings(tool, said)}
        assert readings == {(parse_call(call).name, _said(call))}, said


def test_every_call_that_binding_makes_can_be_said_shortly() -> None:
    rng = random.Random(11)
    lengths = []
    for call in _calls(rng, 40):
        said = phrases.phrase(call, rng)
        words = said.split()
        lengths.append(len(words))
        assert "then" not in words
        assert said == said.strip()
        assert said[-1] not in ".?!,"
    assert sum(lengths) / len(lengths) < 9
    assert max(lengths) <= 20


def test_templates_are_lower_case_and_differ_between_tools() -> None:
    skeletons = {tool: {"_".join(template.pieces) for template in phrases.templates(tool)} for tool in TOOLS}
    for one, other in combinations(TOOLS, 2):
        assert not skeletons[one] & skeletons[other], (one, other)
    for tool in TOOLS:
        for template in phrases.templates(tool):
            assert all(piece == piece.lower() for piece in template.pieces)
            assert template.text[-1] not in ".?!,"
            assert template.pieces[0], "a phrase that opens with a value cannot change its first letter's case"


def test_templates_name_real_parameters_only() -> None:
    for name, tools in binding.TOOLS.items():
        for tool in tools:
            parameters = set(inspect.signature(getattr(api.api_class(name), tool)).parameters)
            for template in phrases.templates(tool):
                assert {slot.split(".")[0] for slot in (*template.slots, *template.condition)} <= parameters, tool


def test_optional_arguments_are_said_exactly_when_given() -> None:
    rng = random.Random(12)
    assert "3" in phrases.phrase("tail(file_name='a.txt', lines=3)", rng).split()
    assert "lines" not in phrases.phrase("tail(file_name='a.txt')", rng)
    assert "words" in phrases.phrase("wc(file_name='a.txt', mode='w')", rng)
    assert "hidden" in phrases.phrase("ls(a=True)", rng)
    assert "'two words'" in phrases.phrase("edit_ticket(ticket_id=5, updates={'title': 'two words'})", rng)


@pytest.mark.parametrize(
    ("value", "said"),
    [(3, "3"), (-2.5, "-2.5"), ("a.txt", "'a.txt'"), ("two words", "'two words'"), ("", "''"), ([1], "1"),
     (["x", "y z", "w"], "'x', 'y z' and 'w'")],
)  # fmt: skip
def test_values_are_said_plainly(value: object, said: str) -> None:
    assert phrases.say(value) == said


@pytest.mark.parametrize(
    "text",
    ["cat('a.txt')", "cat(file_name='a.txt', lines=3)", "no_such_tool(x=1)", "cat()", "ls(a=1)"],
)
def test_calls_without_a_wording_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no wording"):
        phrases.phrase(text, random.Random(0))


def test_text_that_is_no_call_is_refused() -> None:
    with pytest.raises(MalformedAction):
        phrases.phrase("__import__('os').system('true')", random.Random(0))
    with pytest.raises(MalformedAction):
        phrases.phrase("hello", random.Random(0))
