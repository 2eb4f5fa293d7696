from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from coevolve_lab import records as r
from coevolve_lab.config import Config
from coevolve_lab.errors import StoreError
from coevolve_lab.store import RunReader, RunWriter, schema

Make = Callable[..., list[Any]]


@pytest.fixture
def run_dir(tmp_path: Path, make_records: Make) -> Path:
    """A run of three rounds, one set of records each; its path holds a quote."""
    with RunWriter.create(tmp_path / "it's a run", Config()) as writer:
        for round in range(3):
            writer.append(make_records(round, round))
            writer.commit(round)
    return tmp_path / "it's a run"


def test_an_empty_run_has_every_table_with_its_columns(tmp_path: Path) -> None:
    RunWriter.create(tmp_path / "run", Config()).close()
    reader = RunReader(tmp_path / "run")
    assert reader.committed_round is None
    for name in reader.table_names:
        frame = reader.table(name)
        assert frame.height == 0
        assert dict(frame.schema) == schema.tables()[name]
    assert reader.records(r.Trajectory) == []
    with pytest.raises(StoreError, match="has no round"):
        reader.state()


def test_tables_have_the_same_types_with_rows(run_dir: Path) -> None:
    reader = RunReader(run_dir)
    for name in reader.table_names:
        assert dict(reader.table(name).schema) == schema.tables()[name]
        assert reader.table(name).height > 0


def test_common_questions_are_short(run_dir: Path) -> None:
    reader = RunReader(run_dir)
    kinds = reader.sql("select kind, count(*) as n, sum(step) as steps from signals group by kind")
    assert kinds.to_dicts() == [{"kind": "rare", "n": 3, "steps": 21}]
    tools = reader.sql("select unnest(tools) as tool, count(*) as n from steps group by tool order by tool")
    assert tools.rows() == [("cd", 9), ("ls", 6)]
    assert reader.sql("select sum(n_tokens) as n from trajectories")["n"].to_list() == [27]
    assert reader.sql("select max((outcomes->>'b_2')::double) as x from evaluations")["x"].to_list() == [0.1]
    chain = reader.sql(
        "select v.task_id, s.trajectory_id from verdicts v join drafts d on v.draft_id = d.id "
        "join contexts c on d.context_id = c.id join signals s on c.signal_id = s.id "
        "where v.round = 1 and v.outcome = 'accepted'"
    )
    assert chain.rows() == [("task1", "t1")]


def test_records_by_condition(run_dir: Path, make_records: Make) -> None:
    reader = RunReader(run_dir)
    expected = [x for x in make_records(1, 1) if isinstance(x, r.Trajectory)]
    assert reader.records(r.Trajectory, where="round = 1 -- the second") == expected
    assert reader.records(r.Trajectory, where="status = 'no such'") == []
    assert [t.id for t in reader.records(r.Task, where="round >= 1")] == ["task1", "task2"]


@pytest.mark.parametrize(
    "query",
    [
        "drop view tasks",
        "select 1; drop view tasks",
        "copy tasks to '{run}/tables/tasks/part-00000-00000.parquet'",
        "copy (select 1) to '{run}/tables/x.parquet'",
        "explain analyze copy tasks to '{run}/tables/x.parquet'",
        "select * from read_text('{run}/config.json')",
        "select * from read_text('/etc/hostname')",
        "select * from '{run}/rounds/round-00000.json'",
        "select * from glob('/etc/*')",
        "select * from query('copy tasks to ''{run}/tables/x.parquet''')",
        "with x as (insert into tasks select * from tasks returning *) select * from x",
        "attach '{run}/x.duckdb'",
        "set enable_external_access = true",
        "install httpfs",
        "create table x as select 1",
        "pragma version",
        "",
        "selec 1",
        "select nothing from tasks",
    ],
)
def test_sql_that_is_wrong_or_reaches_out_is_an_error_and_changes_nothing(run_dir: Path, query: str) -> None:
    files = {path: path.read_bytes() for path in run_dir.rglob("*") if path.is_file()}
    reader = RunReader(run_dir)
    with pytest.raises(StoreError):
        reader.sql(query.replace("{run}", str(run_dir).replace("'", "''")))
    assert reader.table("tasks").height == 3
    assert {path: path.read_bytes() for path in run_dir.rglob("*") if path.is_file()} == files


def test_duckdbs_own_words_reach_the_user(run_dir: Path) -> None:
    with pytest.raises(StoreError, match=r"(?s)Binder Error.*nothing.*in the query: select nothing"):
        RunReader(run_dir).sql("select nothing from tasks")
    with pytest.raises(StoreError, match="no table 'task'; there are: tasks"):
        RunReader(run_dir).table("task")
    with pytest.raises(StoreError, match="Parser Error"):
        RunReader(run_dir).records(r.Task, where="round = = 1")


def test_frames_of_the_caller_are_not_reachable(run_dir: Path) -> None:
    secret = pl.DataFrame({"a": [1]})
    with pytest.raises(StoreError, match="secret"):
        RunReader(run_dir).sql("select * from secret")
    assert secret.height == 1


def test_threads_share_a_reader(run_dir: Path) -> None:
    reader, wrong = RunReader(run_dir), []

    def look() -> None:
        wrong.extend(n for _ in range(10) if (n := reader.sql("select count(*) as n from steps")["n"][0]) != 9)

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_reader_leaves_no_trace(run_dir: Path) -> None:
    before = sorted((path, path.stat().st_mtime_ns) for path in run_dir.rglob("*"))
    reader = RunReader(run_dir)
    reader.sql("select * from steps order by action")
    reader.records(r.Trajectory)
    assert sorted((path, path.stat().st_mtime_ns) for path in run_dir.rglob("*")) == before
