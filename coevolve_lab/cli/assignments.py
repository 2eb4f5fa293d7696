"""Settings as they are typed: ``--set training.learning_rate=1e-4``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from coevolve_lab.errors import ConfigError


def settings(assignments: Sequence[str]) -> dict[str, Any]:
    """``["training.learning_rate=1e-4", "seed=1"]`` as a nested mapping; values are read as YAML.

    Raises ConfigError for anything else.
    """
    tree: dict[str, Any] = {}
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        keys = path.split(".")
        if not equals or not all(keys):
            raise ConfigError(
                f"--set takes key.path=value, for example --set training.kl_coef=0.01; got '{assignment}'"
            )
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ConfigError(f"--set {path}: '{text}' is not a YAML value: {error}") from None
        below = tree
        for key in keys[:-1]:
            below = below.setdefault(key, {})
            if not isinstance(below, dict):
                raise ConfigError(f"--set {path}: '{key}' was set to a value before")
        below[keys[-1]] = value
    return tree
