"""Tasks by id, of D_t and of the evaluation split."""

from __future__ import annotations

from pathlib import Path

import pytest

from coevolve_lab import CoEvolve
from coevolve_lab.errors import StoreError
from coevolve_lab.records import Task
from coevolve_lab.widgets.known_tasks import KnownTasks
from tests.loop_world import LoopToy, new_run


def test_both_sources_are_offered_and_found(finished: CoEvolve) -> None:
    known = KnownTasks(finished.reader, LoopToy(), "test")
    stored = {task.id: task for task in finished.reader.records(Task)}
    assert set(known.ids()) == {*stored, *(f"toy-test_{i}" for i in range(6))}
    assert known.ids()[0] in finished.sql("select id from tasks where round = (select max(round) from tasks)")["id"]
    for name in known.ids():
        assert known.find(name) == stored.get(name, known.find(name))
        assert known.find(name).id == name
    assert len({known.any_id() for _ in range(60)}) > 3


def test_any_other_id_is_an_error_and_never_sql(finished: CoEvolve) -> None:
    known = KnownTasks(finished.reader, LoopToy(), "test")
    for name in ("nope", "' or true --", ""):
        with pytest.raises(StoreError, match="no task"):
            known.find(name)


def test_without_any_task_there_is_no_surprise(tmp_path: Path) -> None:
    with new_run(tmp_path / "fresh") as run, pytest.raises(StoreError, match="no task yet"):
        KnownTasks(run.reader, LoopToy(size=0), "test").any_id()
