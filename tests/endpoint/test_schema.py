"""The part of JSON Schema that we know, and the form in which servers want it."""

from __future__ import annotations

from typing import Any

import pytest

from coevolve_lab.endpoint.schema import problem, strict


@pytest.mark.parametrize(
    ("value", "schema", "wrong"),
    [
        (1, {}, ""),
        ("x", {"type": "string"}, ""),
        (True, {"type": "boolean"}, ""),
        (True, {"type": "integer"}, "the reply must be of type integer, not boolean"),
        (True, {"type": "number"}, "the reply must be of type number, not boolean"),
        (2.0, {"type": "integer"}, ""),
        (2.5, {"type": "integer"}, "the reply must be of type integer, not number"),
        (None, {"type": ["string", "null"]}, ""),
        (1, {"type": ["string", "null"]}, "the reply must be of type string or null, not integer"),
        ("c", {"enum": ["a", "b"]}, "the reply must be one of 'a', 'b'"),
        ("abc", {"type": "string", "maxLength": 2}, "the reply must have at most 2 characters"),
        ("", {"type": "string", "minLength": 1}, "the reply must have at least 1 characters"),
        ([], {"type": "array", "minItems": 1}, "the reply must have at least 1 items"),
        ([1, 2], {"type": "array", "maxItems": 1}, "the reply must have at most 1 items"),
        ([1, "x"], {"type": "array", "items": {"type": "integer"}}, "the reply[1] must be of type integer, not string"),
        (11, {"type": "number", "maximum": 10}, "the reply must be at most 10"),
        (0.5, {"type": "number", "minimum": 1}, "the reply must be at least 1"),
        ({}, {"type": "object", "required": ["a", "b"]}, "the reply lacks 'a', 'b'"),
        ({"z": 1}, {"type": "object", "properties": {"a": {"type": "string"}}}, ""),
        (
            {"a": [{"b": 1}]},
            {"properties": {"a": {"items": {"properties": {"b": {"type": "string"}}}}}},
            "the reply.a[0].b must be of type string, not integer",
        ),
    ],
)
def test_what_does_not_fit_is_named(value: Any, schema: dict[str, Any], wrong: str) -> None:
    assert problem(value, schema) == wrong


def test_strict_servers_get_what_they_insist_on() -> None:
    inner = {"type": "object", "properties": {"x": {"type": "string", "maxLength": 5}}}
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": inner, "maxItems": 3}}}
    assert strict(schema) == {
        "type": "object",
        "additionalProperties": False,
        "required": ["a"],
        "properties": {
            "a": {
                "type": "array",
                "maxItems": 3,
                "items": {
                    "type": "object",
                    "properties": {"x": {"type": "string"}},
                    "required": ["x"],
                    "additionalProperties": False,
                },
            }
        },
    }
    assert inner["properties"] == {"x": {"type": "string", "maxLength": 5}}  # the caller's own is as it was


def test_a_property_may_be_called_like_a_keyword() -> None:
    schema = {"type": "object", "properties": {"maxLength": {"type": "integer"}}}
    assert strict(schema)["required"] == ["maxLength"]
