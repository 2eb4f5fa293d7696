"""The part of JSON Schema that structured replies need: checked here, and written in the form that servers accept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "number": (int, float),
    "integer": (int,),
    "null": (type(None),),
}
# Lengths of strings are checked here only: strict servers refuse a schema that bounds them.
_KEPT_TO_OURSELVES = {"maxLength", "minLength"}


def problem(value: Any, schema: Mapping[str, Any], where: str = "the reply") -> str:
    """What is wrong with a value, as a sentence for the model that wrote it; "" when it fits.

    Knows type (one or a list), enum, properties, required, items, minItems, maxItems, minLength, maxLength, minimum
    and maximum. Properties that the schema does not name are let through.
    """
    wanted = schema.get("type")
    if wanted is not None:
        names = [wanted] if isinstance(wanted, str) else list(wanted)
        if not any(_is(value, name) for name in names):
            return f"{where} must be of type {' or '.join(names)}, not {_name(value)}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{where} must be one of {', '.join(map(repr, schema['enum']))}"
    if isinstance(value, dict):
        return _object(value, schema, where)
    if isinstance(value, list):
        return _bounds(len(value), schema, "Items", f"{where} must have", "items") or _first(
            problem(item, schema.get("items", {}), f"{where}[{i}]") for i, item in enumerate(value)
        )
    if isinstance(value, str):
        return _bounds(len(value), schema, "Length", f"{where} must have", "characters")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _bounds(value, schema, "imum", f"{where} must be", "")
    return ""


def strict(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema as servers of strict structured output want it: every property required, and no others."""
    sent = {key: value for key, value in schema.items() if key not in _KEPT_TO_OURSELVES}
    if "properties" in sent:
        sent["properties"] = {name: strict(inner) for name, inner in sent["properties"].items()}
        sent["required"] = list(sent["properties"])
        sent["additionalProperties"] = False
    if isinstance(sent.get("items"), Mapping):
        sent["items"] = strict(sent["items"])
    return sent


def _object(value: dict[str, Any], schema: Mapping[str, Any], where: str) -> str:
    missing = [name for name in schema.get("required", ()) if name not in value]
    if missing:
        return f"{where} lacks {', '.join(map(repr, missing))}"
    inner = schema.get("properties", {})
    return _first(problem(value[name], inner[name], f"{where}.{name}") for name in inner if name in value)


def _bounds(size: float, schema: Mapping[str, Any], suffix: str, what: str, unit: str) -> str:
    low, high = schema.get(f"min{suffix}"), schema.get(f"max{suffix}")
    if low is not None and size < low:
        return f"{what} at least {low} {unit}".rstrip()
    if high is not None and size > high:
        return f"{what} at most {high} {unit}".rstrip()
    return ""


def _first(problems: Any) -> str:
    return next((p for p in problems if p), "")


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[name])


def _name(value: Any) -> str:
    return next(name for name in ("integer", *_TYPES) if _is(value, name))
