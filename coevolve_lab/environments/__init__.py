"""Environments by name; ``register_environment`` adds yours. Benchmarks are imported when they are asked for."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

from coevolve_lab.environments.base import Environment, ScriptedWorld, Session
from coevolve_lab.errors import ConfigError

__all__ = ["Environment", "ScriptedWorld", "Session", "make", "register_environment"]

_ENVIRONMENTS = {
    "bfcl": ("coevolve_lab.environments.bfcl.environment", "BFCLEnvironment"),
    "appworld": ("coevolve_lab.environments.appworld.environment", "AppWorldEnvironment"),
}
_REGISTERED: dict[str, Callable[..., Environment]] = {}


def register_environment(name: str, kind: Callable[..., Environment]) -> None:
    """Make ``kind(**options)`` available as ``make(name, **options)``; the latest one counts.

    A run that is opened again needs its environment registered first. Raises ConfigError for a built-in's name.
    """
    if name in _ENVIRONMENTS:
        raise ConfigError(f"'{name}' is an environment that comes with coevolve_lab; choose another name")
    _REGISTERED[name] = kind


def make(name: str, **options: Any) -> Environment:
    """The environment of that name.

    Raises ConfigError for an unknown name or option, PrerequisiteError when the benchmark has to be installed first.
    """
    if name in _REGISTERED:
        kind = _REGISTERED[name]
    elif name in _ENVIRONMENTS:
        module, class_name = _ENVIRONMENTS[name]
        kind = getattr(importlib.import_module(module), class_name)
    else:
        known = ", ".join([*_ENVIRONMENTS, *_REGISTERED])
        raise ConfigError(
            f"no environment is called '{name}'; there is {known} (register_environment adds yours; --import loads the "
            "file that does, for a command)"
        )
    valid = inspect.signature(kind).parameters
    unknown = [option for option in options if option not in valid]
    if unknown:
        raise ConfigError(f"environment '{name}' has no option '{unknown[0]}'; it has {', '.join(valid)}")
    return kind(**options)
