"""Imported tasks enter a run between rounds, through the gate, and the run goes on with them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from coevolve_lab import CoEvolve
from coevolve_lab.cli import main
from coevolve_lab.errors import StoreError
from coevolve_lab.exchange import export_tasks
from coevolve_lab.records import Task
from tests.loop_world import assert_nothing_twice, new_run, warm_cache  # noqa: F401  (a fixture)


@pytest.fixture
def others(toy_run: CoEvolve, tmp_path: Path) -> Path:
    return export_tasks(toy_run.reader, tmp_path / "others.jsonl").path


def test_a_run_takes_tasks_of_another(others: Path, tmp_path: Path) -> None:
    with new_run(tmp_path / "run", seed=3) as run:
        with pytest.raises(StoreError, match="seed_tasks"):
            run.import_tasks(others)
        run.seed_tasks()
        before = len(run.task_set)
        verdicts = run.import_tasks(others)
        entered = [task for task in run.task_set if task.origin == "import"]
        assert len(entered) == sum(v.outcome == "accepted" for v in verdicts) > 0
        assert len(run.task_set) == before + len(entered)
        assert {v.reason for v in run.import_tasks(others)} <= {v.reason for v in verdicts} | {"duplicate"}
        assert run.reader.committed_round == 0
    with CoEvolve.open(tmp_path / "run", progress=False) as run:
        assert {v.reason for v in run.import_tasks(others) if v.outcome != "discarded"} == set()
        run.rounds(1)
        assert [task for task in run.task_set if task.origin == "import"] == entered
        assert run.reader.records(Task) == run.task_set
        assert_nothing_twice(run)
        chain = run.sql(
            "select distinct c.kind, c.summary from tasks t join drafts d on d.id = t.draft_id "
            "join contexts c on c.id = d.context_id where t.origin = 'import'"
        )
        assert chain.rows() == [("import", f"{len(verdicts)} tasks imported from others.jsonl")]
        run.rollout()
        with pytest.raises(StoreError, match="between rounds"):
            run.import_tasks(others)


def test_a_file_that_cannot_be_used_changes_nothing(others: Path, tmp_path: Path) -> None:
    others.write_text(others.read_text() + '{"turns": 1}\n')
    with new_run(tmp_path / "run", seed=3) as run:
        run.seed_tasks()
        before = run.task_set
        with pytest.raises(StoreError, match="turns: it has to be a list"):
            run.import_tasks(others)
        assert run.task_set == before
        assert run.sql("select count(*) from drafts where origin = 'import'").item() == 0


def test_commands(toy_run: CoEvolve, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = str(toy_run.run_dir)
    assert main(["export", source, "--to", str(tmp_path / "t"), "--what", "trajectories", "--min-score", "0.5"]) == 0
    assert "rows in" in capsys.readouterr().out
    others = tmp_path / "others.jsonl"
    assert main(["export", source, "--to", str(others)]) == 0
    assert json.loads(others.read_text().splitlines()[0])["replay_score"] == 1.0
    assert main(["export", source, "--to", str(others)]) == 2
    assert "overwrite" in capsys.readouterr().err
    assert main(["export", source, "--to", str(others), "--bare", "--overwrite"]) == 0
    with new_run(tmp_path / "run", seed=3) as run:
        run.seed_tasks()
    assert main(["import", str(tmp_path / "run"), str(others)]) == 0
    assert "accepted (solved)" in capsys.readouterr().out
