"""The typed documentation of a world's APIs, as its data folder holds it: what can be called, and with what."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coevolve_lab.errors import EnvironmentFailure

_BOUND = re.compile(r"(>=?|<=?) (-?[\d.]+(?:e\+?\d+)?)")
_CHOICES = "value in "


@dataclass(frozen=True)
class Parameter:
    """One argument. least and most: inclusive bounds of a number, None if there is none; choices: all it may be."""

    name: str
    type: str
    required: bool
    least: float | None = None
    most: float | None = None
    choices: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Api:
    """One API. method: as in HTTP: GET reads, everything else changes something. returns: what a success looks like."""

    app: str
    name: str
    method: str
    description: str
    parameters: tuple[Parameter, ...]
    returns: Any

    @property
    def tool(self) -> str:
        """``app.api``, the name that sessions report."""
        return f"{self.app}.{self.name}"

    @property
    def reads(self) -> bool:
        return self.method == "GET"

    def required(self) -> list[Parameter]:
        """The arguments that must be given, access tokens left out."""
        return [p for p in self.parameters if p.required and not p.name.endswith("access_token")]


def read_apis(root: Path) -> dict[str, Api]:
    """All APIs of a world by ``app.api``. Raises EnvironmentFailure for documentation that cannot be read."""
    folder = root / "data" / "api_docs" / "standard"
    found: dict[str, Api] = {}
    for path in sorted(folder.glob("*.json")):
        try:
            written = json.loads(path.read_text(encoding="utf-8"))
            rows = written.values() if isinstance(written, Mapping) else written
            apis = [_api(row) for row in rows]
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise EnvironmentFailure(f"the API documentation in {path} cannot be read: {error!r}") from None
        found |= {api.tool: api for api in apis}
    if not found:
        raise EnvironmentFailure(f"there is no API documentation in {folder}; install the world again")
    return found


def _api(row: Mapping[str, Any]) -> Api:
    return Api(
        app=row["app_name"],
        name=row["api_name"],
        method=row["method"],
        description=row["description"],
        parameters=tuple(_parameter(parameter) for parameter in row["parameters"]),
        returns=row.get("response_schemas", {}).get("success"),
    )


def _parameter(row: Mapping[str, Any]) -> Parameter:
    least = most = None
    choices: tuple[Any, ...] = ()
    for constraint in row["constraints"]:
        if constraint.startswith(_CHOICES):
            choices = tuple(ast.literal_eval(constraint.removeprefix(_CHOICES)))
        elif constraint.startswith("value "):
            for sign, number in _BOUND.findall(constraint):
                if sign.startswith(">"):
                    least = float(number) + (sign == ">")
                else:
                    most = float(number) - (sign == "<")
    return Parameter(row["name"], row["type"], row["required"], least, most, choices)
