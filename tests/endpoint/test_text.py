"""Model text as it comes: reasoning off, JSON out of prose, and nothing that takes it down."""

from __future__ import annotations

import json

import pytest

from coevolve_lab.endpoint import read_json, strip_reasoning
from coevolve_lab.endpoint.text import clean, decode

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("plain", "plain"),
        ("<think>why</think> answer ", "answer"),
        ("a<THINK>x</think>b<thinking>y</thinking>c", "abc"),
        ("<think>one <think>two</think> one</think>answer", "answer"),
        ("begun in the prompt</think>answer", "answer"),
        ("answer<think>never closed", "answer"),
        ("<think>", ""),
        ("a < b and <thinker>", "a < b and <thinker>"),
        ("", ""),
    ],
)
def test_reasoning_is_taken_off(text: str, kept: str) -> None:
    assert strip_reasoning(text) == kept


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}',
        ' \n{"a": 1}\n',
        '```json\n{"a": 1}\n```',
        'Here you are:\n```\n{"a": 1,}\n```\nAnything else?',
        'I looked at [this] and {that} and [1, 2].\n{"a": 1} or {"a": 2}',
        '<think>{"a": 9}</think>{"a": 1}',
        '{"b": 2} {"a": "no"} {"a": 1, "b": [1, 2, ], }',
        '{"a": 1, "b": {"a": 2}}',
    ],
)
def test_the_first_value_that_fits_is_found(text: str) -> None:
    assert read_json(text, SCHEMA)["a"] == 1


def test_strings_are_left_as_they_are() -> None:
    assert read_json('{"a": 1, "c": "<think>no</think>"}', SCHEMA)["c"] == "<think>no</think>"
    assert read_json('so: {"a": 1, "b": "x,] \\" ,}", }', SCHEMA)["b"] == 'x,] " ,}'


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "no JSON"),
        ("words", "no JSON"),
        ("<think>{}", "no JSON"),
        ('{"a": ', "broken JSON"),
        ('{"a": NaN}', "not finite"),
        ('{"a": 1e999}', "not finite"),
        ('{"a": "1"}', "the reply.a must be of type integer, not string"),
        ("[1]", "must be of type object, not array"),
        ('first {"b": 1}', "lacks 'a'"),
        ("[" * 100_000, "nested more than 64 deep"),
        ("[" * 100 + "]" * 100, "nested more than 64 deep"),
        ('{"a": ' + "9" * 5000 + "}", "broken JSON"),
    ],
)
def test_what_is_wrong_is_said(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        read_json(text, SCHEMA)


HOSTILE = ["[", '{"a":', "<think>", "</think><think>", '{"\\"', '\\"', "[1,", "{}", ",]", "{\n\n", '"', "```json\n\n"]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("piece", HOSTILE)
def test_repetition_takes_linear_time(piece: str) -> None:
    """Two hundred thousand characters of it: anything quadratic would take hours."""
    for text in (piece * (200_000 // len(piece)), '{"' + piece * (200_000 // len(piece))):
        strip_reasoning(text)
        with pytest.raises(ValueError):
            read_json(text, SCHEMA)


def test_cleaned_values_can_be_stored_anywhere() -> None:
    value = clean({"a\x00": ["\ud800", ("x", 1, None, True)], "n": 1.5})
    assert value == {"a\ufffd": ["\ufffd", ["x", 1, None, True]], "n": 1.5}
    assert "\ufffd" in json.dumps(value, ensure_ascii=False).encode().decode()
    assert decode('"\\ud83d\\ude00"') == "\U0001f600"  # a pair is a character
