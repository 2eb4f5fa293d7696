from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from coevolve_lab.config import Config
from coevolve_lab.errors import StoreError
from coevolve_lab.store import RunReader, RunWriter, write_snapshot

Make = Callable[..., list[Any]]


def test_the_snapshot_holds_all_tables_on_its_own(tmp_path: Path, make_records: Make) -> None:
    with RunWriter.create(tmp_path / "run", Config()) as writer:
        writer.append(make_records(0))
        writer.commit(0)
        writer.append(make_records(1, 1))
        writer.flush()
        path = write_snapshot(writer.run_dir)
        names = writer.reader.table_names
    moved = path.rename(tmp_path / "alone.duckdb")
    with duckdb.connect(str(moved), read_only=True) as connection:
        assert {row[0] for row in connection.execute("show tables").fetchall()} == set(names)
        assert connection.execute("select count(*) from steps").fetchall() == [(6,)]
        assert connection.execute("select id from tasks").fetchall() == [("task0",), ("task1",)]


def test_who_has_the_old_snapshot_open_keeps_it(tmp_path: Path, make_records: Make) -> None:
    with RunWriter.create(tmp_path / "run", Config()) as writer:
        path = write_snapshot(writer.run_dir)
        with duckdb.connect(str(path), read_only=True) as old:
            writer.append(make_records(0))
            writer.commit(0)
            write_snapshot(writer.run_dir)
            assert old.execute("select count(*) from tasks").fetchall() == [(0,)]
        with duckdb.connect(str(path), read_only=True) as new:
            assert new.execute("select count(*) from tasks").fetchall() == [(1,)]
    assert sorted(p.name for p in (tmp_path / "run").glob("run.duckdb*")) == ["run.duckdb"]
    assert RunReader(tmp_path / "run").committed_round == 0


def test_only_a_run_can_be_snapshot(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not a run"):
        write_snapshot(tmp_path)
