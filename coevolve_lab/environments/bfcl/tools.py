"""OpenAI-style tool schemas from the benchmark's function documents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from coevolve_lab.environments.bfcl import package

_DOCUMENTS = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}
_JSON_TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": "string"}  # others are JSON Schema's own


def schemas(start: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tools that a start state offers: its classes' documents, in their order, minus its excluded functions.

    start: as in ``api.load_apis``. The schemas are shared between sessions: read them, do not change them.
    """
    excluded = set(start.get("excluded_function", ()))
    tools = {
        tool["function"]["name"]: tool
        for class_name in start["involved_classes"]
        for tool in class_schemas(class_name)
        if tool["function"]["name"] not in excluded
    }
    return list(tools.values())


@cache
def class_schemas(class_name: str) -> tuple[dict[str, Any], ...]:
    """Schemas of all documented tools of one class. Raises KeyError for an unknown class."""
    path = package.activate() / "multi_turn_func_doc" / f"{_DOCUMENTS[class_name]}.json"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    return tuple(
        {
            "type": "function",
            "function": {
                "name": row["name"],
                "description": row["description"],
                "parameters": _json_schema(row["parameters"]),
            },
        }
        for row in rows
    )


def _json_schema(node: Mapping[str, Any]) -> dict[str, Any]:
    schema = dict(node)
    if "type" in schema:
        schema["type"] = _JSON_TYPES.get(schema["type"], schema["type"])
    if "properties" in schema:
        schema["properties"] = {name: _json_schema(value) for name, value in schema["properties"].items()}
    if isinstance(schema.get("items"), dict):
        schema["items"] = _json_schema(schema["items"])
    return schema
