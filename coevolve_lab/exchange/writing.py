"""Rows into a JSONL file, a Parquet file or a Hugging Face ``datasets`` folder, a page at a time.

Whatever goes wrong, the path holds what it held before: everything is written beside it and moved there at the end.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from coevolve_lab.errors import StoreError
from coevolve_lab.exchange.card import is_ours, write_card
from coevolve_lab.exchange.columns import JSON_COLUMNS, Columns, arrow_schema

FORMATS = ("jsonl", "parquet", "hf")

Row = dict[str, Any]


@dataclass
class Exported:
    """What an export wrote. notes: how many rows lack something or were left out, by what and why."""

    path: Path
    format: str
    rows: int = 0
    notes: dict[str, int] = field(default_factory=dict)

    def note(self, what: str) -> None:
        self.notes[what] = self.notes.get(what, 0) + 1

    def __str__(self) -> str:
        return "\n".join(
            [f"{self.rows} rows in {self.path}", *(f"{count} {what}" for what, count in self.notes.items())]
        )


class _Sink(Protocol):
    def write(self, split: str, round: int, rows: list[Row]) -> None: ...

    def close(self) -> None: ...


def format_of(path: str | Path, format: str | None) -> str:
    """The format that was asked for, or that the name stands for: .jsonl, .parquet, no suffix for a folder.

    Raises StoreError when there is none.
    """
    if format is not None:
        if format not in FORMATS:
            raise StoreError(f"no format '{format}'; there are {', '.join(FORMATS)}")
        return format
    by_suffix = {".jsonl": "jsonl", ".parquet": "parquet", "": "hf"}
    suffix = Path(path).suffix
    if suffix not in by_suffix:
        raise StoreError(
            f"cannot tell the format of {path}: end its name in .jsonl or .parquet, give a folder without a suffix, or "
            f"name the format ({', '.join(FORMATS)})"
        )
    return by_suffix[suffix]


def write_pages(
    done: Exported, pages: Iterable[tuple[str, int, list[Row]]], what: str, columns: Columns, overwrite: bool
) -> Exported:
    """Write all pages (split, round and rows of each) to ``done.path`` and count them.

    what: "tasks" or "trajectories", for the dataset card. Raises StoreError when the path is taken (overwrite: replaces
    a file, or a folder that an export made) or cannot be written.
    """
    with _beside(done.path, done.format, overwrite) as target:
        splits: dict[str, int] = {}
        with _writing(done.path):
            sink = _sink(done.format, target, columns)
        try:
            for named, round, rows in pages:  # not inside _writing: what the making of a row raises is no disk's fault
                split = re.sub(r"\W", "_", named)  # a file name, and what `datasets` calls a split
                if rows:
                    with _writing(done.path):
                        sink.write(split, round, rows)
                    splits[split] = splits.get(split, 0) + len(rows)
        finally:
            with _writing(done.path):
                sink.close()
        if done.format == "hf":
            with _writing(done.path):
                write_card(target, what, columns, splits)
        done.rows = sum(splits.values())
    return done


@contextmanager
def _beside(path: Path, format: str, overwrite: bool) -> Iterator[Path]:
    """A new name in the same folder, moved to ``path`` when all went well."""
    _check_free(path, format, overwrite)
    target = path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        with _writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        yield target
        with _writing(path):
            if path.is_dir():
                shutil.rmtree(path)
            os.replace(target, path)
    finally:
        if target.is_dir():
            shutil.rmtree(target)
        elif target.exists():
            target.unlink()


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(f"cannot write {path}: {reason}; mend the folder or free space") from error


def _check_free(path: Path, format: str, overwrite: bool) -> None:
    if path.is_dir():
        if format != "hf" or (any(path.iterdir()) and not is_ours(path)):
            raise StoreError(f"{path} is a folder that no export made; choose another path")
        taken = any(path.iterdir())
    else:
        taken = path.exists()
        if taken and format == "hf":
            raise StoreError(f"{path} is a file, and a datasets folder needs a folder; choose another path")
    if taken and not overwrite:
        raise StoreError(f"{path} is there already; choose another path, or replace it with overwrite")


def _sink(format: str, target: Path, columns: Columns) -> _Sink:
    if format == "jsonl":
        return _JsonLines(target)
    if format == "parquet":
        return _ParquetFile(target, columns)
    return _HubFolder(target, columns)


class _JsonLines:
    """One JSON object a line; keys without a value inside messages are left out, as the OpenAI interface wants it."""

    def __init__(self, target: Path) -> None:
        self._file = target.open("w", encoding="utf-8")

    def write(self, split: str, round: int, rows: list[Row]) -> None:
        self._file.writelines(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows)

    def close(self) -> None:
        self._file.close()


class _ParquetFile:
    """One file, a row group a page."""

    def __init__(self, target: Path, columns: Columns) -> None:
        self._schema = arrow_schema(columns)
        self._writer = pq.ParquetWriter(target, self._schema, compression="zstd")
        self._last: dict[str, tuple[Any, str]] = {}  # a group's rows share their tools, which are their largest part

    def write(self, split: str, round: int, rows: list[Row]) -> None:
        made = [
            {name: self._text(name, value) if name in JSON_COLUMNS else value for name, value in row.items()}
            for row in rows
        ]
        self._writer.write_table(pa.Table.from_pylist(made, schema=self._schema))

    def close(self) -> None:
        self._writer.close()

    def _text(self, name: str, value: Any) -> str:
        if name not in self._last or self._last[name][0] is not value:
            self._last[name] = value, json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return self._last[name][1]


class _HubFolder:
    """``data/SPLIT-ROUND.parquet``, one file a round; pages of a round follow each other."""

    def __init__(self, target: Path, columns: Columns) -> None:
        self._data, self._columns = target / "data", columns
        self._open: tuple[str, int] | None = None
        self._writer: _ParquetFile | None = None
        self._data.mkdir(parents=True)

    def write(self, split: str, round: int, rows: list[Row]) -> None:
        if self._writer is None or self._open != (split, round):
            self.close()
            self._open = (split, round)
            self._writer = _ParquetFile(self._data / f"{split}-{round:05d}.parquet", self._columns)
        self._writer.write(split, round, rows)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
