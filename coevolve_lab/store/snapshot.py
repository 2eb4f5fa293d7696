"""All tables of a run in one DuckDB file that any tool opens (design rule 8)."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import duckdb

from coevolve_lab.errors import StoreError
from coevolve_lab.store import run_folder, schema
from coevolve_lab.store.reader import RunReader, source_sql
from coevolve_lab.store.run_folder import RunFolder

_ATTEMPTS = 5


def write_snapshot(run_dir: str | Path) -> Path:
    """Write ``run.duckdb`` with every table as it is now, the flushed part of the round in progress included.

    Any process may do so at any time: the file is replaced at once, and whoever has the old one open keeps it.
    Returns its path. Raises StoreError when the run cannot be read or the file not be written.
    """
    folder = RunFolder(run_dir)
    reader = RunReader(run_dir)
    temporary = folder.path / f"run.duckdb.{uuid.uuid4().hex[:8]}.tmp"
    with run_folder.writing(folder.snapshot):
        try:
            _build(reader, temporary)
            run_folder.sync_file(temporary)
            os.replace(temporary, folder.snapshot)
        finally:
            temporary.unlink(missing_ok=True)
            temporary.with_name(f"{temporary.name}.wal").unlink(missing_ok=True)
    return folder.snapshot


def _build(reader: RunReader, path: Path) -> None:
    for attempt in range(_ATTEMPTS):
        files = reader.parts()
        path.unlink(missing_ok=True)
        try:
            with duckdb.connect(str(path)) as connection:
                for table, columns in schema.tables().items():
                    source = source_sql([str(file) for file in files[table]], columns)
                    connection.execute(f"create table {table} as {source}")
            return
        except duckdb.Error as error:
            # A commit may have replaced pending parts meanwhile; anything else is not mended by trying again.
            gone = any(not file.exists() for listed in files.values() for file in listed)
            if not gone or attempt == _ATTEMPTS - 1:
                raise StoreError(f"cannot build {path.name} in {path.parent}: {error}") from error
