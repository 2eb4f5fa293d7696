"""Runs begun by a version whose records had fewer fields: readable as they are, and continued with the new ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from coevolve_lab import records as r
from coevolve_lab.config import Config
from coevolve_lab.store import RunReader, RunWriter, schema, write_snapshot

NEW = {
    "updates": ["gap_largest", "capped_fraction", "staleness_largest", "stale"],
    "stage_costs": ["restarts", "missed", "swaps", "swap_seconds"],
}


@pytest.fixture
def older(tmp_path: Path, make_records: Callable[..., list[Any]]) -> Path:
    """A run of two rounds whose records lack what was added to them since."""
    with RunWriter.create(tmp_path / "run", Config()) as writer:
        for round in range(2):
            writer.append(make_records(round, round))
            writer.commit(round)
    for table, columns in NEW.items():
        for path in (tmp_path / "run" / "tables" / table).iterdir():
            pq.write_table(pq.read_table(path).drop_columns(columns), path)
    return tmp_path / "run"


def test_an_older_run_reads_with_defaults_and_its_columns_are_null_in_sql(older: Path) -> None:
    reader = RunReader(older)
    assert [(u.step, u.gap_largest, u.capped_fraction) for u in reader.records(r.Update)] == [(0, 0, 0), (1, 0, 0)]
    assert dict(reader.table("updates").schema) == schema.tables()["updates"]
    assert reader.sql("select max(gap_largest) as gap, avg(logprob_gap) as mean from updates").rows() == [(None, 1e-9)]
    assert reader.records(r.Update, "gap_largest is not null") == []
    assert {(u.staleness_largest, u.stale) for u in reader.records(r.Update)} == {(0, 0)}
    costs = reader.records(r.StageCost)
    assert {(c.restarts, c.missed, c.swaps, c.swap_seconds) for c in costs} == {(0, 0, 0, 0.0)}
    assert {c.seconds for c in costs} == {1.25}


def test_it_goes_on_with_the_new_columns(older: Path) -> None:
    update = r.Update(
        2, 2, 4, 0.5, -0.1, 1e-3, 0.0, 2.2, 0.02, 0.7, 1e-6, 16, 3, 4, 7, 128, 900, 400, 1.5,
        gap_largest=1.25, capped_fraction=0.125,
    )  # fmt: skip
    with RunWriter.open(older) as writer:
        writer.append([update])
        writer.flush()
        assert RunReader(older).records(r.Update)[-1] == update
        writer.commit(2)
    reader = RunReader(older)
    assert reader.table("updates")["gap_largest"].to_list() == [None, None, 1.25]
    assert reader.table("updates")["step"].to_list() == [0, 1, 2]
    assert reader.records(r.Update)[-1] == update
    with duckdb.connect(str(write_snapshot(older)), read_only=True) as snapshot:
        rows = snapshot.sql("select step, capped_fraction from updates order by step").fetchall()
    assert rows == [(0, None), (1, None), (2, 0.125)]
