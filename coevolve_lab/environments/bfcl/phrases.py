"""What a user would say to ask for a call, from hand-written templates (data: ``phrases.yaml``).

A phrase names every argument value, so that it determines the call; no two tools share a phrasing.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from coevolve_lab.environments.bfcl.calls import Call, parse_call

NO_CONDITION = "any"
_PLACEHOLDER = re.compile(r"\{([\w.]+)\}")


@dataclass(frozen=True)
class Template:
    """One wording. condition: argument values (as ``repr``) it stands for; slots: the arguments that it says.

    pieces: the text between the slots, one more than there are slots.
    """

    text: str
    condition: dict[str, str]
    slots: tuple[str, ...]
    pieces: tuple[str, ...]


def phrase(call_text: str, rng: random.Random) -> str:
    """What a user would say for this call: lower case but for the values, no punctuation at the end.

    Raises MalformedAction if the text is not one call, ValueError if no wording fits its tool and arguments.
    """
    call = parse_call(call_text)
    arguments = flat_arguments(call)
    fitting = [template for template in templates(call.name) if _fits(template, arguments)]
    if call.args or not fitting:
        raise ValueError(f"no wording for {call_text[:200]}; wordings stand in phrases.yaml")
    strictest = max(len(template.condition) for template in fitting)
    chosen = rng.choice([template for template in fitting if len(template.condition) == strictest])
    said = [chosen.pieces[0]]
    for slot, piece in zip(chosen.slots, chosen.pieces[1:], strict=True):
        said += (say(arguments[slot]), piece)
    return "".join(said)


def flat_arguments(call: Call) -> dict[str, Any]:
    """Keyword arguments by name, the fields of a dict argument under ``argument.field``."""
    flat: dict[str, Any] = {}
    for name, value in call.kwargs.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{field}": inner for field, inner in value.items()}
        else:
            flat[name] = value
    return flat


def say(value: Any) -> str:
    """A value as a user would write it: text in quotes, lists as "a, b and c"."""
    if isinstance(value, list | tuple):
        items = [say(item) for item in value]
        return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)
    return repr(value)


def templates(tool: str) -> tuple[Template, ...]:
    """All wordings of a tool; () for an unknown one."""
    return _templates().get(tool, ())


@cache
def _templates() -> dict[str, tuple[Template, ...]]:
    rows = yaml.safe_load(Path(__file__).with_name("phrases.yaml").read_text(encoding="utf-8"))
    return {
        tool: tuple(_template(text, condition) for condition, texts in groups.items() for text in texts)
        for tool, groups in rows.items()
    }


def _template(text: str, condition: str) -> Template:
    parts = _PLACEHOLDER.split(text)
    values = dict([condition.split("=", 1)]) if condition != NO_CONDITION else {}
    return Template(text, values, tuple(parts[1::2]), tuple(parts[0::2]))


def _fits(template: Template, arguments: dict[str, Any]) -> bool:
    condition = template.condition
    if len(condition) + len(template.slots) != len(arguments):
        return False
    return all(slot in arguments and slot not in condition for slot in template.slots) and all(
        name in arguments and repr(arguments[name]) == value for name, value in condition.items()
    )
