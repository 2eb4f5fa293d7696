from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coevolve_lab import records as r
from coevolve_lab.config import Config
from coevolve_lab.errors import RunLockedError, StoreError
from coevolve_lab.store import RunReader, RunWriter

Make = Callable[..., list[Any]]


@pytest.fixture
def writer(tmp_path: Path) -> RunWriter:
    return RunWriter.create(tmp_path / "run", Config())


def test_what_is_committed_is_read_again(writer: RunWriter, make_records: Make) -> None:
    given = [record for i in range(2) for record in make_records(i)]
    writer.append(given)
    writer.commit(0, state={"seen": 3}, checkpoint_files={"adapter.bin": b"abc"}, counters={"tasks": 2})
    reader = RunReader(writer.run_dir)
    for kind in r.RECORDS:
        assert reader.records(kind) == [record for record in given if type(record) is kind]
    assert reader.committed_round == 0
    assert reader.state() == {"seen": 3}
    assert (reader.checkpoint() / "adapter.bin").read_bytes() == b"abc"
    assert reader.manifests()[0].counters == {"tasks": 2}


def test_the_own_reader_sees_appended_records_at_once_and_others_after_flush(
    writer: RunWriter, make_records: Make
) -> None:
    other, committed_only = RunReader(writer.run_dir), RunReader(writer.run_dir, live=False)
    writer.append(make_records(1))
    assert other.table("tasks").height == 0
    assert writer.reader.table("tasks")["id"].to_list() == ["task1"]
    writer.append(make_records(2))
    writer.flush()
    assert other.table("tasks")["id"].to_list() == ["task1", "task2"]
    assert committed_only.table("tasks").height == 0
    writer.commit(0)
    assert other.table("tasks")["id"].to_list() == ["task1", "task2"]
    assert committed_only.table("steps").height == 6


def test_the_own_reader_goes_on_after_close_without_what_was_not_committed(
    writer: RunWriter, make_records: Make
) -> None:
    writer.append(make_records(0))
    writer.commit(0)
    writer.append(make_records(1))
    writer.flush()
    writer.append(make_records(2))
    writer.close()
    assert writer.reader.table("tasks")["id"].to_list() == ["task0"]


def test_a_commit_leaves_one_part_per_table(writer: RunWriter, make_records: Make) -> None:
    for i in range(3):
        writer.append(make_records(i))
        writer.flush()
    writer.commit(0)
    files = [path.name for path in writer.run_dir.glob("tables/*/*")]
    assert set(files) == {"part-00000-00000.parquet"}
    assert len(files) == len(writer.reader.table_names)


def test_an_unfinished_round_is_gone_when_the_run_is_opened_again(writer: RunWriter, make_records: Make) -> None:
    writer.append(make_records(0, round=0))
    writer.commit(0)
    writer.append(make_records(1, round=1))
    writer.flush()
    killed = writer.run_dir.with_name("killed")
    shutil.copytree(writer.run_dir, killed, ignore=shutil.ignore_patterns("lock"))
    writer.close()
    assert RunReader(writer.run_dir).table("tasks")["id"].to_list() == ["task0"]
    assert RunReader(killed).table("tasks").height == 2  # until somebody writes to it
    for folder in (writer.run_dir, killed):
        with RunWriter.open(folder) as again:
            assert again.committed_round == 0
            assert again.reader.table("tasks")["id"].to_list() == ["task0"]
            again.append(make_records(9, round=1))
            again.commit(1)
        assert RunReader(folder).table("tasks")["id"].to_list() == ["task0", "task9"]


def test_a_round_can_be_added_to_until_the_next_one(writer: RunWriter, make_records: Make) -> None:
    writer.append(make_records(0))
    writer.commit(0, state={"a": 1}, checkpoint_files={"f": b"1"})
    writer.append(make_records(1))
    writer.commit(0)
    reader = RunReader(writer.run_dir)
    assert reader.table("tasks")["id"].to_list() == ["task0", "task1"]
    assert reader.state(0) == {"a": 1}
    assert (reader.checkpoint(0) / "f").read_bytes() == b"1"
    writer.commit(2, state={"a": 2})
    assert reader.state() == {"a": 2}
    assert reader.state(0) == {"a": 1}
    with pytest.raises(StoreError, match="round 0 cannot change now"):
        writer.commit(0)
    with pytest.raises(StoreError, match="no round 1"):
        reader.state(1)
    with pytest.raises(StoreError, match="without a checkpoint"):
        reader.checkpoint(2)


def test_a_second_writer_is_refused_by_name(writer: RunWriter) -> None:
    with pytest.raises(RunLockedError, match="already writes"):
        RunWriter.open(writer.run_dir)
    code = f"from coevolve_lab.store import RunWriter; RunWriter.open({str(writer.run_dir)!r})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "RunLockedError" in result.stderr
    assert f"is being written by pid {os.getpid()}" in result.stderr
    writer.close()
    RunWriter.open(writer.run_dir).close()


def test_create_needs_a_folder_of_its_own(writer: RunWriter, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="holds a run already"):
        RunWriter.create(writer.run_dir, Config())
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    with pytest.raises(StoreError, match=r"not empty \(thesis.tex"):
        RunWriter.create(tmp_path / "mine", Config())
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="cannot write"):
        RunWriter.create(tmp_path / "file" / "run", Config())


def test_another_config_is_refused_and_says_what_changed(writer: RunWriter) -> None:
    other = Config.model_validate({"training": {"clip_low": 0.3}})
    writer.close()
    with pytest.raises(StoreError, match=r"training\.clip_low: was 0\.2, now 0\.3.*nothing is committed.*delete"):
        RunWriter.open(writer.run_dir, other)
    with RunWriter.open(writer.run_dir, Config()) as again:
        again.commit(0)
    with pytest.raises(StoreError, match=r"now 0\.3.*fork it"):
        RunWriter.open(writer.run_dir, other)


def test_folders_that_cannot_be_opened(writer: RunWriter, tmp_path: Path) -> None:
    writer.close()
    with pytest.raises(StoreError, match="moved or deleted"):
        RunWriter.open(tmp_path / "nowhere")
    with pytest.raises(StoreError, match="is not a run"):
        RunWriter.open(tmp_path)
    config = writer.run_dir / "config.json"
    content = json.loads(config.read_text())
    for change, message in [
        ({"format": 0}, "run format 0.*the version that wrote it"),
        ({"format": 99}, "run format 99.*update coevolve_lab"),
        ({"config": {**content["config"], "seed": 5}}, "edited by hand"),
    ]:
        config.write_text(json.dumps({**content, **change}))
        with pytest.raises(StoreError, match=message):
            RunWriter.open(writer.run_dir)
    config.write_text("{")
    with pytest.raises(StoreError, match="damaged"):
        RunReader(writer.run_dir)


def test_missing_pieces_are_named(writer: RunWriter, make_records: Make) -> None:
    for round in range(3):
        writer.append(make_records(round, round))
        writer.commit(round)
    writer.close()
    manifest = writer.run_dir / "rounds" / "round-00001.json"
    kept = manifest.read_text()
    manifest.unlink()
    with pytest.raises(StoreError, match=r"round-00002.json follows .*round-00001.json, which is missing"):
        RunWriter.open(writer.run_dir)
    manifest.write_text(kept)
    (writer.run_dir / "tables" / "tasks" / "part-00001-00001.parquet").unlink()
    with pytest.raises(StoreError, match=r"part-00001-00001.parquet, named by round 1, is missing"):
        RunWriter.open(writer.run_dir)
    with pytest.raises(StoreError, match=r"part-00001-00001.parquet is missing"):
        RunReader(writer.run_dir).table("tasks")


def test_a_moved_run_opens_at_its_new_place(writer: RunWriter, make_records: Make, tmp_path: Path) -> None:
    writer.append(make_records())
    writer.commit(0, checkpoint_files={"f": b"1"})
    writer.close()
    reader = RunReader(writer.run_dir)
    writer.run_dir.rename(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="moved or deleted"):
        reader.table("tasks")
    with RunWriter.open(tmp_path / "elsewhere") as moved:
        assert moved.reader.table("tasks").height == 1
        assert moved.reader.checkpoint().is_relative_to(tmp_path / "elsewhere")


def test_a_full_disk_loses_nothing_committed_and_the_commit_can_be_tried_again(
    writer: RunWriter, make_records: Make
) -> None:
    writer.append(make_records(0))
    writer.commit(0)
    writer.append([record for i in range(1, 50) for record in make_records(i, round=1)])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
        with pytest.raises(StoreError, match=r"cannot write .*part-00001-00001.parquet.*committed rounds are safe"):
            writer.commit(1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert RunReader(writer.run_dir, live=False).table("tasks").height == 1
    writer.commit(1)
    assert RunReader(writer.run_dir, live=False).table("tasks").height == 50
    assert not list(writer.run_dir.rglob("*.tmp"))


def test_a_failing_checkpoint_leaves_the_round_uncommitted(writer: RunWriter, make_records: Make) -> None:
    writer.append(make_records(0))

    def fail(folder: Path) -> None:
        (folder / "half").write_text("x")
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        writer.commit(0, checkpoint_files=fail)
    assert RunReader(writer.run_dir).committed_round is None
    writer.commit(0, checkpoint_files=lambda folder: (folder / "whole").write_text("x"))
    assert [p.name for p in writer.reader.checkpoint().iterdir()] == ["whole"]
    assert len(list((writer.run_dir / "checkpoints").iterdir())) == 1


def test_state_that_is_not_json_is_refused(writer: RunWriter) -> None:
    with pytest.raises(StoreError, match="state of round 0 is not JSON"):
        writer.commit(0, state={"x": {1}})
    assert writer.committed_round is None
