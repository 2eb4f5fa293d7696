"""Tasks from elsewhere as drafts of a run. Their author is unknown, so every value is checked, and execution decides.

A row needs ``start`` (an object, or JSON text of one) and either ``turns`` and ``solution`` or ``messages`` in the form
of OpenAI. Everything else in it is left out, but for ``environment``, which has to be the run's, and ``id`` and
``explorer``, which are kept for the record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from coevolve_lab.endpoint.text import finite_json
from coevolve_lab.errors import StoreError
from coevolve_lab.evolution.explorer import Occasion
from coevolve_lab.evolution.validation import MAX_DRAFT_CHARS
from coevolve_lab.exchange.messages import UnreadableMessages, turns_and_solution
from coevolve_lab.exchange.reading import read_rows
from coevolve_lab.records import ExplorationContext, TaskDraft

T = TypeVar("T")

MOST_ROWS = 10_000
MOST_TURNS = 100
MOST_CALLS = 500  # in all turns of one task
MOST_MESSAGES = 2_000
MAX_NAME_CHARS = 200
MAX_START_CHARS = 2_000_000
MAX_START_DEPTH = 60
COLUMNS = frozenset({"id", "environment", "explorer", "turns", "start", "solution", "messages"})


@dataclass(frozen=True)
class Imported:
    """Drafts in the order of their rows, and the context that they all name as their cause: the file."""

    context: ExplorationContext
    drafts: list[TaskDraft]


def import_tasks(
    path: str | Path, environment: str, occasion: Occasion | None = None, most_rows: int = MOST_ROWS
) -> Imported:
    """Drafts of origin "import" from a .jsonl or .parquet file, or a folder of them, such as ``export_tasks`` writes.

    environment: name of the run's. occasion: where ids and round come from. A row with ``turns`` and ``solution`` comes
    back exactly as it was exported, one with ``messages`` alone as its user turns and tool calls. Raises StoreError
    naming file, row and field; then nothing is imported.
    """
    path, occasion = Path(path), occasion or Occasion(0)
    context_id = occasion.ident("import", 0)
    drafts: list[TaskDraft] = []
    for where, row in read_rows(path, COLUMNS):
        if len(drafts) >= most_rows:
            raise StoreError(f"{path} holds more than {most_rows} rows; split it, or allow more with most_rows")
        drafts.append(_draft(_Row(where, row), environment, context_id, occasion, len(drafts)))
    if not drafts:
        raise StoreError(f"{path} holds no rows")
    summary = f"{len(drafts)} tasks imported from {path.name}"
    return Imported(ExplorationContext(context_id, "import", occasion.round, {}, summary=summary), drafts)


@dataclass(frozen=True)
class _Row:
    """One row; every value taken from it is checked, and an error says where it was."""

    where: str
    values: Mapping[str, Any]

    def take(self, name: str, check: Callable[[Any], T]) -> T:
        try:
            return check(self.values.get(name))
        except (ValueError, RecursionError) as problem:
            raise StoreError(f"{self.where}, {name}: {problem}") from None

    def has(self, name: str) -> bool:
        return self.values.get(name) is not None


def _draft(row: _Row, environment: str, context_id: str, occasion: Occasion, index: int) -> TaskDraft:
    if (named := row.take("environment", _name)) and named != environment:
        raise StoreError(f"{row.where}, environment: it is {named!r}, and this run's is {environment!r}")
    if row.has("turns") or row.has("solution"):
        turns, solution = row.take("turns", _turns), row.take("solution", _solution)
    elif row.has("messages"):
        turns, solution = row.take("messages", _spoken)
    else:
        raise StoreError(f"{row.where} has neither turns and solution nor messages")
    if len(turns) != len(solution):
        raise StoreError(f"{row.where}, solution: {len(solution)} lists of calls for {len(turns)} user turns")
    return TaskDraft(
        id=occasion.ident("imported", index),
        context_id=context_id,
        rollout_id=row.take("id", _name),
        environment=environment,
        turns=turns,
        start=row.take("start", _start),
        solution=solution,
        round=occasion.round,
        origin="import",
        explorer=row.take("explorer", _name),
    )


def _name(value: Any) -> str:
    text = "" if value is None else _text(value)
    if len(text) > MAX_NAME_CHARS:
        raise ValueError(f"longer than {MAX_NAME_CHARS} characters")
    return text


def _turns(value: Any) -> tuple[str, ...]:
    turns = tuple(_text(turn) for turn in _list(value, MOST_TURNS))
    if not turns:
        raise ValueError("no user turn")
    return turns


def _solution(value: Any) -> tuple[tuple[str, ...], ...]:
    solution = tuple(tuple(_text(call) for call in _list(calls, MOST_CALLS)) for calls in _list(value, MOST_TURNS))
    _few(solution)
    return solution


def _spoken(value: Any) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    try:
        turns, solution = turns_and_solution(_list(value, MOST_MESSAGES))
    except UnreadableMessages as problem:
        raise ValueError(f"message {problem}") from None
    _few(solution)
    return _turns(list(turns)), _solution([list(calls) for calls in solution])


def _few(solution: tuple[tuple[str, ...], ...]) -> None:
    if sum(map(len, solution)) > MOST_CALLS:
        raise ValueError(f"more than {MOST_CALLS} calls")


def _start(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        if len(value) > MAX_START_CHARS:
            raise ValueError(f"longer than {MAX_START_CHARS} characters")
        value = finite_json(value)
    if not isinstance(value, dict):
        raise ValueError(f"the start state has to be an object, not {type(value).__name__}")
    _check_plain(value)
    return value


def _check_plain(value: Any, depth: int = 0) -> None:
    """Raise ValueError for what later stages could not store, compare or print."""
    if depth > MAX_START_DEPTH:
        raise ValueError(f"nested deeper than {MAX_START_DEPTH} levels")
    if isinstance(value, dict):
        for key, item in value.items():
            _text(key)
            _check_plain(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            _check_plain(item, depth + 1)
    elif isinstance(value, str):
        _text(value)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError("numbers have to be finite")
    elif not (value is None or isinstance(value, bool | int)):
        raise ValueError(f"a {type(value).__name__} is no JSON value")


def _list(value: Any, most: int) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"it has to be a list, not {'missing' if value is None else type(value).__name__}")
    if len(value) > most:
        raise ValueError(f"{len(value)} entries; at most {most} are taken")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"it has to be text, not {'missing' if value is None else type(value).__name__}")
    if len(value) > MAX_DRAFT_CHARS:
        raise ValueError(f"longer than {MAX_DRAFT_CHARS} characters")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("it is not valid Unicode") from None
    return value
