"""A tree of settings from a YAML file or a mapping, with changes merged in; what is wrong is named."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import ValidationError

from coevolve_lab.config.tree import Config, Section
from coevolve_lab.errors import ConfigError


def load_config(
    source: str | Path | Mapping[str, Any] | Config, /, *changes: Mapping[str, Any], **overrides: Any
) -> Config:
    """A Config from a YAML file, a mapping or a Config, with changes merged in (nested mappings allowed), later ones
    over earlier ones and keyword overrides over all.

    Raises ConfigError naming the key that is wrong and the nearest valid one, or what a value should have been.
    """
    if isinstance(source, Config):
        tree, where = source.model_dump(mode="json"), "config"
    elif isinstance(source, Mapping):
        tree, where = dict(source), "config"
    else:
        where = str(source)
        tree = _with_base(Path(source))
    for change in (*changes, overrides):
        tree = _merged(tree, change)
    try:
        return Config.model_validate(tree)
    except ValidationError as error:
        raise ConfigError(_explain(error, where)) from None


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file. Raises ConfigError naming what is wrong with the file."""
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"no file {path}; those that come with the project are in configs/ of a clone") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text: {error}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not valid YAML: {error}") from None
    if not isinstance(tree, dict):
        raise ConfigError(f"{path} must hold a mapping of settings, not {type(tree).__name__}")
    return tree


def _with_base(path: Path) -> dict[str, Any]:
    tree = read_yaml(path)
    base = tree.pop("base", None)
    return _merged(_with_base(path.parent / base), tree) if base else tree


def _merged(below: dict[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = _merged(old, value) if isinstance(old, dict) and isinstance(value, Mapping) else value
    return merged


def _explain(error: ValidationError, where: str) -> str:
    lines = []
    for problem in error.errors():
        key = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            valid = list(_section_at(problem["loc"][:-1]).model_fields)
            near = difflib.get_close_matches(str(problem["loc"][-1]), valid, n=1, cutoff=0.0)
            lines.append(f"unknown key '{key}'; did you mean '{near[0]}'? (valid here: {', '.join(valid)})")
        else:
            lines.append(f"'{key}': {problem['msg']}{_given(problem)}")
    return f"{where}: " + "; ".join(lines)


def _given(problem: Any) -> str:
    """What was given, unless it may be a key that somebody put in the wrong place."""
    hidden = isinstance(problem["input"], Mapping) or {"api_key_env", "base_url"} & set(problem["loc"])
    return "" if hidden else f" (got {problem['input']!r})"


def _section_at(location: tuple[int | str, ...]) -> type[Section]:
    section: type[Section] = Config
    for part in location:
        annotation = section.model_fields[str(part)].annotation if str(part) in section.model_fields else None
        options = [annotation, *get_args(annotation)]
        section = next((o for o in options if isinstance(o, type) and issubclass(o, Section)), section)
    return section
