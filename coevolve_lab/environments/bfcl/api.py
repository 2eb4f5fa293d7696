"""The eight multi-turn API classes of BFCL: fresh instances per session, and calls executed with bounds.

Results read exactly as the official executor renders them. What differs from it, on purpose: nothing is evaluated; only
the public methods of the case's classes can be called, without the case's excluded functions; calls that would run for
ever or eat the memory are refused (``limits``); mutable default arguments are fresh for every call (the official
``post_tweet`` shares one list among all tweets of the process); the precision that two methods of MathAPI set for the
whole process is put back after each call.

What is left of the world outside: ``verify_traveler_information`` compares a birth date with today.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from functools import cache
from typing import Any, NamedTuple

from coevolve_lab.environments.bfcl import limits, package
from coevolve_lab.environments.bfcl.calls import Call

_MODULES = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}
CLASSES = tuple(_MODULES)
MAX_RESULT_CHARS = 100_000

_BACKEND = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code"
_MISSING = object()  # equal to nothing
_EXECUTION_ERROR = "Error during execution: "


class Result(NamedTuple):
    """What a call gave. failed: it returned an error or raised; refused: it was not run at all."""

    text: str
    failed: bool
    refused: bool = False


class Apis(Mapping[str, Any]):
    """Instances by class name, with the table of methods that may be called on them."""

    def __init__(self, instances: dict[str, Any], excluded: frozenset[str]) -> None:
        self._instances = instances
        self.methods: dict[str, Callable[..., Any]] = {}  # a later class hides an earlier one's method, as officially
        for name, instance in instances.items():
            for method in public_methods(name):
                if method not in excluded:
                    self.methods[method] = getattr(instance, method)

    def __getitem__(self, name: str) -> Any:
        return self._instances[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._instances)

    def __len__(self) -> int:
        return len(self._instances)

    def execute(self, call: Call) -> Result:
        """Run one call. Never raises: errors are results."""
        method = self.methods.get(call.name)
        if method is None:
            return _refusal(f"no tool is named '{call.name[:80]}'")
        try:
            if (reason := limits.refusal(method, call.args, call.kwargs)) is not None:
                return _refusal(reason)
            args = [_own(value) for value in call.args]  # instances keep, and later change, the lists they are given
            kwargs = {**_fresh_defaults(method, call), **{name: _own(value) for name, value in call.kwargs.items()}}
            with limits.own_precision() if call.name in limits.SETS_PRECISION else nullcontext():
                text = render(method(*args, **kwargs))
        except Exception as error:
            text = f"{_EXECUTION_ERROR}{error}"
        if len(text) > MAX_RESULT_CHARS:
            return Result(
                json.dumps({"error": f"the result is longer than {MAX_RESULT_CHARS} characters"}), failed=True
            )
        if call.name == "edit_ticket":
            text = _sorted_fields(text)
        return Result(text, failed(text))


def load_apis(start: Mapping[str, Any]) -> Apis:
    """Fresh instances for a start state; nothing is shared with ``start`` or with any other session.

    start: {"involved_classes": [...], "initial_config": {class: scenario}, "excluded_function": [...]}, the last two
    optional. Raises KeyError for a class that BFCL's multi-turn suite does not have, ValueError for one that is named
    twice, PrerequisiteError when the package is missing.
    """
    config = start.get("initial_config", {})
    instances: dict[str, Any] = {}
    for name in start["involved_classes"]:
        if name in instances:  # a thousand times the same class would be loaded a thousand times
            raise ValueError(f"class {name} is involved twice")
        instance = api_class(name)()
        if hasattr(instance, "_load_scenario"):  # MathAPI keeps no state
            instance._load_scenario(_own(config.get(name, {})), long_context=False)
        instances[name] = instance
    return Apis(instances, frozenset(start.get("excluded_function", ())))


@cache
def api_class(name: str) -> Any:
    """A class by its BFCL name. Raises KeyError for a name that is not in CLASSES."""
    module = _MODULES[name]
    package.activate()
    return getattr(importlib.import_module(f"{_BACKEND}.{module}"), name)


@cache
def public_methods(class_name: str) -> tuple[str, ...]:
    """Names of the methods that may be called on a class, sorted."""
    members = inspect.getmembers(api_class(class_name), predicate=inspect.isfunction)
    return tuple(name for name, _ in members if not name.startswith("_"))


def state(apis: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """A deep copy of what the official checker compares: per class, every attribute that is not private."""
    return {
        name: {key: copy.deepcopy(value) for key, value in vars(instance).items() if not key.startswith("_")}
        for name, instance in apis.items()
    }


def same_state(apis: Mapping[str, Any], expected: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether live instances equal a ``state`` snapshot, by the official rule (``==`` of every public attribute)."""
    try:
        return all(
            getattr(apis[name], key, _MISSING) == value
            for name, values in expected.items()
            for key, value in values.items()
        )
    except RecursionError:  # a directory that contains itself
        return False


def render(value: Any) -> str:
    """A result as the official executor shows it: strings as they are, dicts as JSON where possible, else ``str``."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        try:
            return json.dumps(value)
        except (TypeError, ValueError):
            return str(value)
    return str(value)


def failed(text: str) -> bool:
    """Whether a result's text reports an error: an exception, or an ``error`` key at its top level."""
    if text.startswith((_EXECUTION_ERROR, "[{'error':")):
        return True
    if not text.startswith("{") or '"error"' not in text:
        return False
    try:
        return "error" in json.loads(text)
    except ValueError:
        return False


def _own(value: Any) -> Any:
    """A copy of a JSON-like value, several times faster than ``copy.deepcopy``."""
    if isinstance(value, dict):
        return {key: _own(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_own(item) for item in value]
    if isinstance(value, tuple):
        return tuple(_own(item) for item in value)
    return value


def _refusal(reason: str) -> Result:
    return Result(json.dumps({"error": reason}), failed=True, refused=True)


@cache
def _mutable_defaults(function: Callable[..., Any]) -> tuple[tuple[int, str, type], ...]:
    parameters = list(inspect.signature(function).parameters.values())[1:]
    return tuple(
        (index, parameter.name, type(parameter.default))
        for index, parameter in enumerate(parameters)
        if isinstance(parameter.default, list | dict | set)  # all of them are empty in the source
    )


def _fresh_defaults(method: Callable[..., Any], call: Call) -> dict[str, Any]:
    return {
        name: kind()
        for index, name, kind in _mutable_defaults(getattr(method, "__func__", method))
        if index >= len(call.args) and name not in call.kwargs
    }


def _sorted_fields(text: str) -> str:
    """``edit_ticket`` lists unknown fields in the order of a set, which changes from process to process."""
    lead = "Invalid fields for update: "
    if not text.startswith(f'{{"error": "{lead}'):
        return text
    fields = json.loads(text)["error"].removeprefix(lead).split(", ")
    return json.dumps({"error": lead + ", ".join(sorted(fields))})
