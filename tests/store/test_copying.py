from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coevolve_lab.config import Config
from coevolve_lab.errors import StoreError
from coevolve_lab.store import RunReader, RunWriter, copy_until, free_folder

Make = Callable[..., list[Any]]


@pytest.fixture
def source(tmp_path: Path, make_records: Make) -> RunWriter:
    """An open run of three rounds and an unfinished one."""
    writer = RunWriter.create(tmp_path / "source", Config())
    for round in range(3):
        writer.append(make_records(round, round))
        writer.commit(round, state={"round": round}, checkpoint_files={"weights": bytes([round])})
    writer.append(make_records(3, 3))
    writer.flush()
    return writer


def test_a_copy_has_the_rounds_up_to_one_and_goes_its_own_way(
    source: RunWriter, tmp_path: Path, make_records: Make
) -> None:
    changed = Config.model_validate({"signals": {"rare": None}})
    with RunWriter.open(copy_until(source.run_dir, tmp_path / "fork", 1, changed), changed) as fork:
        assert fork.committed_round == 1
        assert fork.reader.table("tasks")["id"].to_list() == ["task0", "task1"]
        assert fork.reader.state() == {"round": 1}
        assert (fork.reader.checkpoint() / "weights").read_bytes() == b"\x01"
        fork.append(make_records(7, 2))
        fork.commit(2)
    assert RunReader(tmp_path / "fork").table("tasks")["id"].to_list() == ["task0", "task1", "task7"]
    assert RunReader(tmp_path / "fork").config["signals"]["rare"] is None
    source.commit(3)
    assert source.reader.table("tasks")["id"].to_list() == ["task0", "task1", "task2", "task3"]
    assert source.reader.config["signals"]["rare"] is not None


def test_the_copy_survives_its_source(source: RunWriter, tmp_path: Path) -> None:
    copy_until(source.run_dir, tmp_path / "fork", 2)
    for path in source.run_dir.rglob("*.parquet"):
        path.unlink()
    assert RunReader(tmp_path / "fork").table("steps").height == 9


def test_what_cannot_be_copied(source: RunWriter, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"no round 3; committed rounds: \[0, 1, 2\]"):
        copy_until(source.run_dir, tmp_path / "fork", 3)
    (tmp_path / "there").mkdir()
    with pytest.raises(StoreError, match="exists already"):
        copy_until(source.run_dir, tmp_path / "there", 1)
    (source.run_dir / "tables" / "tasks" / "part-00001-00001.parquet").unlink()
    with pytest.raises(StoreError, match=r"cannot write .*fork"):
        copy_until(source.run_dir, tmp_path / "fork", 1)
    assert {p.name for p in tmp_path.iterdir()} == {"source", "there"}


def test_a_free_folder_is_one_where_nothing_is(tmp_path: Path) -> None:
    assert free_folder(tmp_path / "run") == tmp_path / "run-fork1"
    (tmp_path / "run-fork1").mkdir()
    assert free_folder(tmp_path / "run") == tmp_path / "run-fork2"
