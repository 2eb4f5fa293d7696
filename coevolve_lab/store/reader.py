"""Any number of readers of a run, none of whom can block or break its writer (design rule 8)."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import polars as pl

from coevolve_lab.cores import usable_cores
from coevolve_lab.errors import StoreError
from coevolve_lab.records import Trajectory
from coevolve_lab.store import schema
from coevolve_lab.store.run_folder import Manifest, RunFolder

R = TypeVar("R")

_ATTEMPTS = 20
_PENDING = re.compile(r"pending-(\d+)-(\d+)-\w+\.parquet")


class RunReader:
    """SQL, frames and records of a run, up to date at every call. Never writes and takes no lock; thread-safe.

    Every table is there from the start, empty or not (``table_names``). live: also show what the writer has flushed of
    the round in progress. before_read: called before every look at the folder (a writer's own reader flushes).

    >>> reader = RunReader("data/runs/first")
    >>> reader.sql("select kind, count(*) as n from signals group by kind")
    >>> reader.sql("select tools[1] as tool, avg(failed::int) as failed from steps group by all")
    """

    def __init__(self, run_dir: str | Path, live: bool = True, before_read: Callable[[], None] | None = None) -> None:
        self._folder = RunFolder(run_dir)
        self._live = live
        self._before_read = before_read
        self._mutex = threading.RLock()
        self._manifests: dict[int, Manifest] = {}
        self._seen: dict[int, tuple[int, int]] = {}
        self._paths: dict[int, dict[str, list[Path]]] = {}  # of committed rounds; making paths is what a look costs
        self._views: dict[str, list[str]] = {}
        self._content = self._folder.read_config()
        self._connection = _guarded_connection(self._folder.tables)

    @property
    def run_dir(self) -> Path:
        return self._folder.path

    @property
    def config(self) -> Mapping[str, Any]:
        """The config tree that the run was started with."""
        return dict(self._content["config"])

    @property
    def table_names(self) -> list[str]:
        return list(schema.tables())

    @property
    def committed_round(self) -> int | None:
        """Number of the last committed round; None before the first commit."""
        return max(self.manifests(), default=None)

    def manifests(self) -> Mapping[int, Manifest]:
        """Manifests of all committed rounds by round. Raises StoreError when one is missing or damaged."""
        with self._mutex:
            for round in self._folder.committed_rounds():
                stamp = self._folder.stamp(round)
                if self._seen.get(round) != stamp:
                    self._manifests[round] = manifest = self._folder.read_manifest(round)
                    self._paths[round] = {
                        table: [self._folder.tables / table / part.file for part in parts]
                        for table, parts in manifest.parts.items()
                    }
                    self._seen[round] = stamp
            self._folder.check_chain(self._manifests)
            return dict(self._manifests)

    def table(self, name: str) -> pl.DataFrame:
        """All rows of one table, in the order in which they were appended."""
        if name not in schema.tables():
            raise StoreError(f"no table '{name}'; there are: {', '.join(schema.tables())}")
        return self._query(f"select * from {name}")[0]

    def sql(self, query: str) -> pl.DataFrame:
        """The result of one SELECT over the run's tables. Raises StoreError with DuckDB's message.

        The query runs in a database in memory that may read the run's own tables and nothing else; statements that
        are not a SELECT are refused.
        """
        _check_select(query)
        return self._query(query)[0]

    def records(self, kind: type[R], where: str | None = None) -> list[R]:
        """Records of one class exactly as they were appended. where: an SQL condition on the columns of its table."""
        table = schema.table_of(kind)
        condition = f" where ({where}\n)" if where else ""
        queries = [f"select * from {table}{condition}"]
        _check_select(queries[0])
        if kind is Trajectory:
            chosen = f" where trajectory_id in (select id from {table}{condition})" if where else ""
            queries.append(f"select * from {schema.STEPS}{chosen}")
        return schema.from_frame(kind, *self._query(*queries))

    def state(self, round: int | None = None) -> dict[str, Any]:
        """The state committed with a round (the last one by default); {} when it came without one."""
        manifest = self._manifest(round)
        if manifest.state is None:
            return {}
        path = self._folder.rounds / manifest.state
        try:
            return dict(json.loads(path.read_text()))
        except (OSError, ValueError) as error:
            raise StoreError(f"{path} is missing or damaged ({error}); fork the run at an earlier round") from error

    def checkpoint(self, round: int | None = None) -> Path:
        """Folder of the checkpoint committed with a round (the last one by default). Its files must not be changed."""
        manifest = self._manifest(round)
        if manifest.checkpoint is None:
            raise StoreError(f"round {manifest.round} of {self.run_dir} was committed without a checkpoint")
        path = self._folder.checkpoints / manifest.checkpoint
        if not path.is_dir():
            raise StoreError(f"the checkpoint {path} is missing; restore it, or fork the run at an earlier round")
        return path

    def parts(self) -> dict[str, list[Path]]:
        """Files that hold each table's rows right now, oldest first."""
        # Pending files are listed before the manifests are read: a commit in between then shows the rows once, as
        # part of the round, because pending files of a commit that a manifest has reached are left out.
        pending = self._pending() if self._live else []
        manifests = self.manifests()
        reached = max((m.commit for m in manifests.values()), default=-1)
        files: dict[str, list[Path]] = {table: [] for table in schema.tables()}
        for round in sorted(manifests):
            for table, paths in self._paths[round].items():
                files[table] += paths
        for commit, _, table, path in pending:
            if commit > reached and table in files:
                files[table].append(path)
        return files

    def _manifest(self, round: int | None) -> Manifest:
        manifests = self.manifests()
        wanted = max(manifests, default=None) if round is None else round
        if wanted is None or wanted not in manifests:
            what = "no round" if wanted is None else f"no round {wanted}"
            raise StoreError(f"{self.run_dir} has {what}; committed rounds: {sorted(manifests) or 'none'}")
        return manifests[wanted]

    def _pending(self) -> list[tuple[int, int, str, Path]]:
        found = []
        for path in self._folder.tables.glob("*/pending-*.parquet"):
            if match := _PENDING.fullmatch(path.name):
                found.append((int(match[1]), int(match[2]), path.parent.name, path))
        return sorted(found)

    def _query(self, *queries: str) -> list[pl.DataFrame]:
        """Run queries on the same, newest parts; again when a commit replaced pending parts meanwhile."""
        with self._mutex:
            if self._before_read:
                self._before_read()
            for attempt in range(_ATTEMPTS):
                files = self.parts()
                try:
                    self._show(files)
                    return [_plain_integers(self._connection.sql(query).pl()) for query in queries]
                except duckdb.Error as error:
                    gone = [path for paths in files.values() for path in paths if not path.exists()]
                    if not gone:
                        raise StoreError(f"{error}\nin the query: {queries[0].strip()}") from error
                    if attempt == _ATTEMPTS - 1 or not gone[0].name.startswith("pending-"):
                        raise StoreError(f"{gone[0]} is missing; restore it, or fork at an earlier round") from error
        raise AssertionError("unreachable")

    def _show(self, files: Mapping[str, list[Path]]) -> None:
        """Point the views whose files have changed at the new ones."""
        for table, columns in schema.tables().items():
            names = [str(path) for path in files[table]]
            if self._views.get(table) != names:
                self._connection.execute(f"create or replace view {table} as {source_sql(names, columns)}")
                self._views[table] = names


def _check_select(query: str) -> None:
    try:
        statements = duckdb.extract_statements(query)
    except duckdb.Error as error:
        raise StoreError(f"{error}\nin the query: {query.strip()}") from error
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise StoreError(f"one SELECT at a time, nothing else; got: {query.strip()}")


def _guarded_connection(readable: Path) -> duckdb.DuckDBPyConnection:
    """A database in memory that can read files under ``readable`` and otherwise nothing outside itself."""
    connection = duckdb.connect(":memory:", config={"threads": str(min(4, usable_cores()))})
    connection.execute(f"set allowed_directories = [{quoted(f'{readable}/')}]")
    connection.execute("set temp_directory = ''")
    connection.execute("set python_enable_replacements = false")
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")
    return connection


def source_sql(files: list[str], columns: Mapping[str, Any]) -> str:
    """The SELECT behind a table: its Parquet files, oldest first, or typed columns without rows.

    Columns that came after the oldest part was written are null in the parts that lack them.
    """
    listed = ", ".join(map(quoted, files))
    # By name costs twice as much, so only where it is needed; a run is never continued by an older version.
    if files and not _lacks(files[0], columns):
        return f"select * from read_parquet([{listed}])"
    empty = ", ".join(f'null::{_sql_type(dtype)} as "{name}"' for name, dtype in columns.items())
    typed = f"select {empty} where false"
    return f"{typed} union all by name select * from read_parquet([{listed}], union_by_name = true)" if files else typed


def _lacks(file: str, columns: Mapping[str, Any]) -> bool:
    try:
        return not columns.keys() <= pl.read_parquet_schema(file).keys()
    except (OSError, pl.exceptions.PolarsError):
        return False  # gone or damaged: DuckDB says so when it reads it


def _sql_type(dtype: Any) -> str:
    if isinstance(dtype, pl.List):
        return f"{_sql_type(dtype.inner)}[]"
    names = {pl.String: "varchar", pl.Int64: "bigint", pl.Int32: "integer", pl.Float64: "double", pl.Boolean: "boolean"}
    return names[dtype]


def quoted(value: object) -> str:
    """A value as an SQL string literal."""
    return "'" + str(value).replace("'", "''") + "'"


def _plain_integers(frame: pl.DataFrame) -> pl.DataFrame:
    """DuckDB sums integers as 128-bit, which arrive as decimals; give 64-bit integers where the values fit."""
    wide = [name for name, dtype in frame.schema.items() if dtype == pl.Decimal(38, 0)]
    fits = [name for name in wide if frame[name].cast(pl.Int64, strict=False).null_count() == frame[name].null_count()]
    return frame.with_columns(pl.col(fits).cast(pl.Int64)) if fits else frame
