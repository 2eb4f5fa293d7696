"""Rows of a JSONL file, a Parquet file or a ``datasets`` folder that anybody may have written: bounded, not trusted."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
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
    """A text that occurs often may be in the file once. So texts are read as dictionary and places in it, and measured
    before they are written out; what can be kept short in other ways is refused.
    """
    number = 0
    try:
        meta = pq.read_metadata(file)
        _check_size(file, meta, columns)
        leaves = [meta.schema.column(i) for i in range(meta.num_columns)]
        texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
        with pq.ParquetFile(file, metadata=meta, read_dictionary=texts) as source:
            present = [name for name in source.schema_arrow.names if name in columns]
            groups = range(meta.num_row_groups)  # one by one: each has dictionaries of its own
            for batch in chain.from_iterable(source.iter_batches(_BATCH, [i], present) for i in groups):
                if sum(map(_unpacked, batch.columns)) > _BATCH * MAX_ROW_BYTES:
                    raise StoreError(f"{file} rows from {number + 1} on are longer than {MAX_ROW_BYTES} bytes")
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise StoreError(f"{file} cannot be read as Parquet after row {number}: {str(error)[:200]}") from error


def _check_size(file: Path, meta: pq.FileMetaData, columns: Collection[str]) -> None:
    """Raise StoreError for more than ``MAX_FILE_BYTES``, by what the file says of itself."""
    groups = [meta.row_group(i) for i in range(meta.num_row_groups)]
    values = 0
    for chunk in (group.column(i) for group in groups for i in range(group.num_columns)):
        if chunk.path_in_schema.split(".")[0] not in columns:
            continue
        values += chunk.num_values
        if chunk.physical_type == "FIXED_LEN_BYTE_ARRAY" or "DELTA_BYTE_ARRAY" in chunk.encodings:
            raise StoreError(
                f"{file} holds {chunk.path_in_schema} as {chunk.physical_type}, {', '.join(chunk.encodings)}; write it "
                "as strings of the encoding PLAIN, with or without a dictionary"
            )
    size = max(sum(group.total_byte_size for group in groups), 8 * values)
    if size > MAX_FILE_BYTES:
        raise StoreError(f"{file} unpacks to {size} bytes; at most {MAX_FILE_BYTES} are read")


def _unpacked(array: pa.Array) -> int:
    """Bytes of an array whose dictionaries are written out."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        written_out = pc.sum(pc.binary_length(array.dictionary).take(array.indices)).as_py() or 0
        return int(array.indices.nbytes + written_out)
    if pa.types.is_map(kind):
        return _unpacked(array.keys) + _unpacked(array.items)
    if pa.types.is_struct(kind):
        return sum(map(_unpacked, array.flatten()))
    if pa.types.is_nested(kind):
        return _unpacked(array.flatten())
    return int(array.nbytes)
