"""MathAPI: no state; numbers are small, so that they are short to write."""

from __future__ import annotations

import random
from typing import Any

from coevolve_lab.environments.bfcl.bindings.common import Arguments, Binder, chance
from coevolve_lab.environments.bfcl.names import Names
from coevolve_lab.environments.bfcl.vocabulary import IMPERIAL_PAIRS, METRIC_UNITS


def start(_names: Names, _rng: random.Random) -> dict[str, Any]:
    return {}


def _value(rng: random.Random) -> int | float:
    return rng.randint(2, 99) if chance(rng, 0.8) else rng.randint(11, 989) / 10


def _two(_api: Any, _names: Names, rng: random.Random) -> Arguments:
    return {"a": _value(rng), "b": _value(rng)}


def _list(_api: Any, _names: Names, rng: random.Random) -> Arguments:
    return {"numbers": [_value(rng) for _ in range(rng.randint(2, 4))]}


def _absolute(_api: Any, _names: Names, rng: random.Random) -> Arguments:
    return {"number": -_value(rng)}


def _round(_api: Any, _names: Names, rng: random.Random) -> Arguments:
    number = rng.randint(1001, 99999) / 1000
    return {"number": number, "decimal_places": rng.randint(1, 2)} if chance(rng, 0.6) else {"number": number}


def _root(_api: Any, _names: Names, rng: random.Random) -> Arguments:
    return {"number": rng.randint(2, 99), "precision": rng.randint(3, 9)}


def _logarithm(_api: Any, _names: Names, rng: random.Random) -> Arguments:
    return {"value": rng.randint(2, 99), "base": rng.choice((2, 3, 5, 10)), "precision": rng.randint(3, 9)}


def _power(_api: Any, _names: Names, rng: random.Random) -> Arguments:
    return {"base": rng.randint(2, 12), "exponent": rng.randint(2, 5)}


def _percentage(_api: Any, _names: Names, rng: random.Random) -> Arguments:
    return {"part": rng.randint(1, 60), "whole": rng.randint(61, 99)}


def _metric(_api: Any, _names: Names, rng: random.Random) -> Arguments:
    unit_in, unit_out = rng.sample(METRIC_UNITS, 2)
    return {"value": _value(rng), "unit_in": unit_in, "unit_out": unit_out}


def _imperial(_api: Any, _names: Names, rng: random.Random) -> Arguments:
    unit_in, unit_out = rng.sample(rng.choice(IMPERIAL_PAIRS), 2)
    return {"value": _value(rng), "unit_in": unit_in, "unit_out": unit_out}


BINDERS: dict[str, Binder] = {
    "absolute_value": _absolute, "add": _two, "divide": _two, "imperial_si_conversion": _imperial,
    "logarithm": _logarithm, "max_value": _list, "mean": _list, "min_value": _list, "multiply": _two,
    "percentage": _percentage, "power": _power, "round_number": _round, "si_unit_conversion": _metric,
    "square_root": _root, "standard_deviation": _list, "subtract": _two, "sum_values": _list,
}  # fmt: skip
