"""The numbers of the paper's tables and figures as frames, each row with the place it comes from.

They are read from ``results.json`` beside this file and from nowhere else. Values are percent in tables and in figure
4, shares in [0, 1] in figures 3 and 5, and seconds where a column's name says so.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import polars as pl

from coevolve_lab.errors import ConfigError

LABEL = "published, arXiv:2604.15840"  # what an overlay or a column of published values is called
SOURCE = "source"  # the column that every frame ends with

_DATA = ("columns", "rows")
_CITED = re.compile(r"(.+? \d{4}), .*(arXiv:[\d.]+v\d+)")  # in the first line of the file


def table(number: int) -> pl.DataFrame:
    """A table of the paper: the columns of ``results.json`` and, last, ``source``.

    Table 9 (settings, not results) has the columns setting and value, as JSON text. Table 13 has the mean similarity
    of each setting beside its score (null for "mixed"). Raises ConfigError for a number that it has no table of.
    """
    name, content = f"table {number}", dict(_content("table", str(number)))
    if "rows" not in content:
        settings = [(key, json.dumps(value)) for key, value in _flat(content)]
        return _frame(name, ["setting", "value"], settings)
    columns, rows = list(content["columns"]), [tuple(row) for row in content["rows"]]
    means = content.get("mean_similarity_percent")
    if means:
        columns, rows = [*columns, "mean_similarity_percent"], [(*row, means.get(row[0])) for row in rows]
    return _frame(name, columns, rows)


def figure(name: str) -> pl.DataFrame:
    """The values behind a figure, one a row, and, last, ``source``.

    "3a": benchmark, method, step, score. "3b": step, signals. "3d": step, pass_rate. "4": benchmark, kind, percent.
    "5": benchmark, least, most (the range of the histogram, read off the figure). "7": note (it is described in words
    only). Nothing is published of 3c but its picture. Raises ConfigError for a name that it has nothing of.
    """
    content = _content("figure", name)
    place = f"figure {name}"
    rows: list[tuple[Any, ...]]
    if name == "3a":
        rows = [
            (content["benchmark"], method, step, score)
            for method in ("coevolve", "grpo")
            for step, score in zip(content["steps"], content[method], strict=True)
        ]
        return _frame(place, ["benchmark", "method", "step", "score"], rows)
    if "steps" in content:
        values = next(key for key in content if key != "steps")
        return _frame(place, ["step", values], list(zip(content["steps"], content[values], strict=True)))
    if name == "4":
        rows = [(benchmark, kind, value) for benchmark, kinds in content.items() for kind, value in kinds.items()]
        return _frame(place, ["benchmark", "kind", "percent"], rows)
    ranges = [(key.removesuffix("_range"), *value) for key, value in content.items() if key.endswith("_range")]
    if ranges:
        return _frame(place, ["benchmark", "least", "most"], ranges)
    return _frame(place, ["note"], [(content["note"],)])


def details(name: str) -> Mapping[str, Any]:
    """What ``results.json`` says of a table or figure besides its rows: backbone, note, mean, variance, ranges.

    name: "table 15", "figure 5". Raises ConfigError for one that it does not have.
    """
    kind, _, label = name.partition(" ")
    content = _content(kind, label)
    return {key: copy.deepcopy(value) for key, value in content.items() if key not in _DATA}


def inconsistencies() -> list[str]:
    """Sentences on where the paper's numbers contradict each other; notebook 08_paper_audit does the arithmetic."""
    return list(_results()["inconsistencies_in_the_paper"])


def sources() -> pl.DataFrame:
    """Every table and figure that has published content: name, about (a few words), rows, citation."""
    found = [(kind, label, key) for kind in ("table", "figure") for label, key in _keys(kind).items()]
    made = [
        {
            "name": f"{kind} {label}",
            "about": key.partition("_")[2].replace("_", " "),
            "rows": (table(int(label)) if kind == "table" else figure(label)).height,
            "citation": _citation(f"{kind} {label}"),
        }
        for kind, label, key in found
    ]
    return pl.DataFrame(made)


@cache
def _results() -> dict[str, Any]:
    text = files("coevolve_lab.paper").joinpath("results.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def _keys(kind: str) -> dict[str, str]:
    """Label -> key of ``results.json``: "5" -> "table5_signal_ablation"."""
    return {key.partition("_")[0].removeprefix(kind): key for key in _results() if key.startswith(kind) and "_" in key}


def _content(kind: str, label: str) -> Mapping[str, Any]:
    keys = _keys(kind) if kind in ("table", "figure") else {}
    if label not in keys:
        known = ", ".join(f"{k} {n}" for k in ("table", "figure") for n in _keys(k))
        raise ConfigError(f"nothing is published of '{kind} {label}'; there are {known}")
    content: Mapping[str, Any] = _results()[keys[label]]
    return content


def _citation(place: str) -> str:
    authors, identifier = _CITED.match(_results()["source"]).groups()  # type: ignore[union-attr]
    return f"published: {authors}, {identifier}, {place}"


def _frame(place: str, columns: list[str], rows: Sequence[tuple[Any, ...]]) -> pl.DataFrame:
    """A column is text, whole numbers or floats by what it holds: rows of mixed ints and floats are floats."""
    by_column = [tuple(row[i] for row in rows) for i in range(len(columns))]
    series = [pl.Series(name, values, _dtype(values)) for name, values in zip(columns, by_column, strict=True)]
    return pl.DataFrame([*series, pl.Series(SOURCE, [_citation(place)] * len(rows))])


def _dtype(values: tuple[Any, ...]) -> Any:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {str}:
        return pl.String
    return pl.Int64 if kinds == {int} else pl.Float64


def _flat(content: Mapping[str, Any]) -> list[tuple[str, Any]]:
    flat: list[tuple[str, Any]] = []
    for key, value in content.items():
        flat += [(f"{key}.{name}", v) for name, v in value.items()] if isinstance(value, dict) else [(key, value)]
    return flat
