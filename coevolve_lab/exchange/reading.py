"""Rows of a JSONL file, a Parquet file or a ``datasets`` folder that anybody may have written: bounded, not trusted."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from coevolve_lab.endpoint.text import finite_json
from coevolve_lab.errors import StoreError

MAX_ROW_BYTES = 4_000_000  # of a line; start states of real applications are the largest part
MAX_FILE_BYTES = 1_000_000_000  # of a Parquet file when it is unpacked, as it says itself
MAX_FILES = 10_000
_BATCH = 16  # Parquet rows that are unpacked at a time


def read_rows(path: Path, columns: Collection[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each row's place ("tasks.jsonl line 3") and its values in ``columns``, the others left out.

    A folder is read as its ``*.parquet`` and ``*.jsonl`` files, those in ``data`` if it has one, in the order of their
    names. Raises StoreError naming file and place.
    """
    for file in _files(path):
        rows = _jsonl(file) if file.suffix == ".jsonl" else _parquet(file, columns)
        for number, row in rows:
            yield (
                f"{file} {'line' if file.suffix == '.jsonl' else 'row'} {number}",
                {name: value for name, value in row.items() if name in columns},
            )


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        folder = path / "data" if (path / "data").is_dir() else path
        found = sorted(file for file in folder.iterdir() if file.suffix in (".jsonl", ".parquet"))
        if not found:
            raise StoreError(f"{folder} holds no .jsonl or .parquet file")
        if len(found) > MAX_FILES:
            raise StoreError(f"{folder} holds {len(found)} files; at most {MAX_FILES} are read")
        return found
    if path.suffix not in (".jsonl", ".parquet"):
        raise StoreError(f"{path} is neither .jsonl nor .parquet nor a folder of such files")
    if not path.is_file():
        raise StoreError(f"{path} does not exist")
    return [path]


def _jsonl(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        with file.open("rb") as lines:
            number = 0
            while line := lines.readline(MAX_ROW_BYTES + 1):
                number += 1
                if len(line) > MAX_ROW_BYTES:
                    raise StoreError(f"{file} line {number} is longer than {MAX_ROW_BYTES} bytes")
                if line.strip():
                    yield number, _object(line, f"{file} line {number}")
    except OSError as error:
        raise StoreError(f"cannot read {file}: {error.strerror}") from error


def _object(line: bytes, where: str) -> dict[str, Any]:
    try:
        row = finite_json(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{where} is not JSON: {str(error)[:200]}") from None
    if not isinstance(row, dict):
        raise StoreError(f"{where} is no JSON object")
    return row


def _parquet(file: Path, columns: Collection[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    number = 0
    try:
        with pq.ParquetFile(file) as source:
            meta = source.metadata
            size = sum(meta.row_group(i).total_byte_size for i in range(meta.num_row_groups))
            if size > MAX_FILE_BYTES:
                raise StoreError(f"{file} unpacks to {size} bytes; at most {MAX_FILE_BYTES} are read")
            present = [name for name in source.schema_arrow.names if name in columns]
            for batch in source.iter_batches(batch_size=_BATCH, columns=present):
                if batch.nbytes > _BATCH * MAX_ROW_BYTES:
                    raise StoreError(f"{file} rows from {number + 1} on are longer than {MAX_ROW_BYTES} bytes")
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise StoreError(f"{file} cannot be read as Parquet after row {number}: {str(error)[:200]}") from error
