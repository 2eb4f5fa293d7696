"""Why a call must not run: the few methods whose cost is not bounded by the length of the call.

Numbers that take for ever to compute or print, file trees that no walk finishes (copies of a directory share what is in
them, so a few copies of copies make an exponential tree, or one that contains itself), and a search for a free number
where none is free.
"""

from __future__ import annotations

import decimal
import inspect
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

MAX_PRECISION = 1000  # digits
MAX_POWER_DIGITS = 4000  # Python refuses to print integers of more than 4300
MAX_PLACES = 400
MAX_NAME = 255  # characters of a file name or path
MAX_TREE_NODES = 1000
MAX_TREE_DEPTH = 20
MAX_MESSAGE_IDS = 50_000  # in use; send_message draws from 90,000 until it meets a free one
SETS_PRECISION = frozenset({"logarithm", "square_root"})  # process-wide, and leaves it so

_precision_lock = threading.RLock()


def refusal(method: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str | None:
    """Why this call of a bound API method must not run, or None if it may."""
    guard = _GUARDS.get(method.__name__)
    if guard is None:
        return None
    try:
        arguments = inspect.signature(method).bind(*args, **kwargs).arguments
    except TypeError:
        return None  # the call itself will say so, in the official words
    return guard(getattr(method, "__self__", None), arguments)


@contextmanager
def own_precision() -> Iterator[None]:
    """Keep what MathAPI does to the process-wide precision of mpmath and decimal inside this block."""
    import mpmath

    with _precision_lock, decimal.localcontext():
        digits = mpmath.mp.dps
        try:
            yield
        finally:
            mpmath.mp.dps = digits


def _precision(_instance: Any, arguments: Mapping[str, Any]) -> str | None:
    if any(isinstance(value, str) for value in arguments.values()):
        return "arguments must be numbers"
    if isinstance(arguments["precision"], int | float) and abs(arguments["precision"]) > MAX_PRECISION:
        return f"precision must be at most {MAX_PRECISION}"
    return None


def _power(_instance: Any, arguments: Mapping[str, Any]) -> str | None:
    base, exponent = arguments["base"], arguments["exponent"]
    if not isinstance(base, int) or not isinstance(exponent, int) or abs(base) < 2:
        return None  # floats overflow at once
    return "the result is too large" if abs(exponent) * math.log10(abs(base)) > MAX_POWER_DIGITS else None


def _places(_instance: Any, arguments: Mapping[str, Any]) -> str | None:
    places = arguments.get("decimal_places", 0)
    return "decimal_places is out of range" if isinstance(places, int) and abs(places) > MAX_PLACES else None


def _file_names(_instance: Any, arguments: Mapping[str, Any]) -> str | None:
    names = [value for key, value in arguments.items() if key not in ("content", "pattern")]
    return "the name is too long" if any(isinstance(name, str) and len(name) > MAX_NAME for name in names) else None


def _new_entry(instance: Any, arguments: Mapping[str, Any]) -> str | None:
    return _file_names(instance, arguments) or _room(instance, 1, 1)


def _moved_entry(instance: Any, arguments: Mapping[str, Any]) -> str | None:
    source, destination = arguments["source"], arguments["destination"]
    if not isinstance(source, str) or source not in instance._current_dir.contents:
        return None
    if source == destination:
        return f"cannot put '{source}' into itself"
    nodes, depth = _size(instance._current_dir.contents[source])
    return _file_names(instance, arguments) or _room(instance, nodes, depth + 1)


def _room(instance: Any, nodes: int, depth: int) -> str | None:
    above, directory = 0, instance._current_dir
    while directory is not None and above <= MAX_TREE_DEPTH:
        directory, above = directory.parent, above + 1
    if _size(instance.root)[0] + nodes > MAX_TREE_NODES or above + depth > MAX_TREE_DEPTH:
        return "the file system is full"
    return None


def _size(item: Any) -> tuple[int, int]:
    """Files and directories in a tree, counted once per path, and its depth; walks little beyond what is allowed."""
    nodes, depth, waiting = 0, 0, [(item, 1)]
    while waiting and nodes <= MAX_TREE_NODES:
        node, level = waiting.pop()
        nodes, depth = nodes + 1, max(depth, level)
        waiting.extend((child, level + 1) for child in getattr(node, "contents", {}).values())
    return nodes, depth


def _free_message_id(instance: Any, _arguments: Mapping[str, Any]) -> str | None:
    return "too many message ids are in use" if len(instance.generated_ids) > MAX_MESSAGE_IDS else None


_GUARDS: dict[str, Callable[[Any, Mapping[str, Any]], str | None]] = {
    "logarithm": _precision,
    "square_root": _precision,
    "power": _power,
    "round_number": _places,
    "mkdir": _new_entry,
    "touch": _new_entry,
    "cp": _moved_entry,
    "mv": _moved_entry,
    "find": _file_names,
    "send_message": _free_message_id,
}
