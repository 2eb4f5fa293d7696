"""What is exported is what the run recorded, in each format, readable by those who train on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from coevolve_lab import CoEvolve
from coevolve_lab.environments import Environment
from coevolve_lab.errors import StoreError
from coevolve_lab.exchange import export, export_tasks, export_trajectories
from coevolve_lab.exchange.columns import JSON_COLUMNS, TASKS, trajectories
from coevolve_lab.records import Task, Trajectory
from coevolve_lab.store import RunReader
from tests.loop_world import LoopToy

SUFFIXES = [".jsonl", ".parquet", ""]


def load(path: Path) -> list[dict[str, Any]]:
    """Rows of an export, whatever its format, keys without a value inside messages left out."""
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    files = sorted((path / "data").iterdir()) if path.is_dir() else [path]
    rows = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    for row in rows:
        row.update({name: json.loads(row[name]) for name in JSON_COLUMNS if name in row})
        row["messages"] = [{k: v for k, v in message.items() if v is not None} for message in row["messages"]]
    return rows


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_format_holds_the_same_tasks(toy_run: CoEvolve, tmp_path: Path, suffix: str) -> None:
    toy = LoopToy()
    done = export_tasks(toy_run.reader, tmp_path / f"tasks{suffix}", environment=toy, with_results=True)
    tasks, found = toy_run.reader.records(Task), load(done.path)
    assert (done.rows, done.notes) == (len(tasks), {})
    assert [row["id"] for row in found] == [task.id for task in tasks]
    for task, row in zip(tasks, found, strict=True):
        assert list(row) == list(TASKS)
        assert (tuple(row["turns"]), row["start"]) == (task.turns, task.start)
        assert tuple(map(tuple, row["solution"])) == task.solution
        assert row["tools"] == toy.open(task).tools
        assert row["replay_score"] == 1.0
        assert [m["role"] for m in row["messages"]] == ["user", "assistant", "tool", "assistant"]


def test_a_feedback_task_names_its_whole_chain(toy_run: CoEvolve, tmp_path: Path) -> None:
    found = load(export_tasks(toy_run.reader, tmp_path / "tasks.jsonl").path)
    caused = [row for row in found if row["signal_id"]]
    assert caused, "the toy run makes tasks from signals"
    for row in caused:
        chain = toy_run.sql(
            "select s.kind, s.trajectory_id, j.policy_version from drafts d join contexts c on c.id = d.context_id "
            "join signals s on s.id = c.signal_id join trajectories j on j.id = s.trajectory_id "
            f"where d.id = '{row['draft_id']}'"
        ).row(0)
        assert (row["signal_kind"], row["trajectory_id"], row["policy_version"]) == chain
        assert row["similarity"] is not None
    seeds = [row for row in found if row["origin"] == "seed"]
    assert {row["context_kind"] for row in seeds} == {"seed"}
    assert all(row["signal_id"] is None for row in seeds)


def test_the_solve_rate_is_of_training_alone(toy_run: CoEvolve, tmp_path: Path) -> None:
    found = {row["id"]: row for row in load(export_tasks(toy_run.reader, tmp_path / "tasks.jsonl").path)}
    played = [t for t in toy_run.reader.records(Trajectory) if t.purpose == "train"]
    assert sum(row["tries"] for row in found.values()) == len(played)
    for task_id in {t.task_id for t in played}:
        scores = [t.score for t in played if t.task_id == task_id]
        assert found[task_id]["solve_rate"] == pytest.approx(sum(s == 1 for s in scores) / len(scores))
    assert all(row["solve_rate"] is None for row in found.values() if not row["tries"])


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_trajectories_keep_what_was_sampled(toy_run: CoEvolve, tmp_path: Path, suffix: str) -> None:
    done = export_trajectories(toy_run.reader, tmp_path / f"t{suffix}", with_tokens=True)
    played = [t for t in toy_run.reader.records(Trajectory) if t.purpose == "train"]
    found = load(done.path)
    assert [row["id"] for row in found] == [t.id for t in played]
    for trajectory, row in zip(played, found, strict=True):
        assert list(row) == list(trajectories(with_tokens=True))
        for name in ("task_id", "group_id", "policy_version", "round", "step", "score", "status", "temperature"):
            assert row[name] == getattr(trajectory, name)
        assert tuple(row["prompt_ids"]) == trajectory.prompt_ids
        for step, given in zip(trajectory.steps, row["steps"], strict=True):
            assert (given["action"], given["observation"]) == (step.action, step.observation)
            assert (tuple(given["token_ids"]), tuple(given["logprobs"])) == (step.token_ids, step.logprobs)
            assert tuple(given["reply_ids"]) == step.reply_ids
        said = [message for message in row["messages"] if message["role"] == "assistant"]
        assert len(said) == len(trajectory.steps)


def test_marks_choices_and_ids_of_trajectories(bfcl_reader: RunReader, tmp_path: Path) -> None:
    found = {row["id"]: row for row in load(export_trajectories(bfcl_reader, tmp_path / "all.parquet").path)}
    assert list(found) == ["t0", "t1", "t2"]
    assert [row["signals"] for row in found.values()] == [[], ["boundary"], []]
    assert [row["origin"] for row in found.values()] == ["seed", "seed", "feedback"]
    assert "prompt_ids" not in found["t0"]
    assert list(found["t0"]["steps"][0]) == ["turn", "action", "observation", "tools", "failed"]
    assert [len(m.get("tool_calls", ())) for m in found["t0"]["messages"] if m["role"] == "assistant"] == [2, 0, 0]
    assert found["t2"]["messages"] == [{"role": "user", "content": bfcl_reader.records(Task)[1].turns[0]}]
    good = export_trajectories(bfcl_reader, tmp_path / "good.jsonl", min_score=0.5, policy_version=1)
    assert [row["id"] for row in load(good.path)] == ["t0"]


def test_evaluation_tasks_come_from_the_environment(bfcl_reader: RunReader, bfcl: Environment, tmp_path: Path) -> None:
    without = export_trajectories(bfcl_reader, tmp_path / "a.jsonl", purpose="evaluate")
    assert without.rows == 0
    assert "1 trajectories left out" in str(without)
    done = export_trajectories(bfcl_reader, tmp_path / "b", purpose="evaluate", environment=bfcl)
    assert [row["messages"][0]["content"] for row in load(done.path)] == [bfcl.tasks("test")[0].turns[0]]
    assert [file.name for file in (done.path / "data").iterdir()] == ["evaluate-00002.parquet"]


def test_a_long_run_is_written_a_page_at_a_time(
    toy_run: CoEvolve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = load(export_trajectories(toy_run.reader, tmp_path / "whole.parquet").path)
    monkeypatch.setattr(export, "PAGE", 3)
    paged = export_trajectories(toy_run.reader, tmp_path / "paged.parquet").path
    assert load(paged) == whole
    groups = pq.ParquetFile(paged).metadata
    assert max(groups.row_group(i).num_rows for i in range(groups.num_row_groups)) == 3


def test_the_datasets_library_loads_the_folder(bfcl_reader: RunReader, bfcl: Environment, tmp_path: Path) -> None:
    import datasets

    done = export_tasks(bfcl_reader, tmp_path / "hub", environment=bfcl, with_results=True)
    loaded = datasets.load_dataset(str(done.path), cache_dir=str(tmp_path / "cache"))
    assert list(loaded) == ["train"]
    assert loaded["train"].column_names == list(TASKS)
    expected = [json.loads(line) for line in _lines(bfcl_reader, bfcl, tmp_path)]
    assert loaded["train"]["id"][:] == [row["id"] for row in expected]
    assert json.loads(loaded["train"][0]["tools"]) == expected[0]["tools"]
    assert loaded["train"][0]["messages"][1]["tool_calls"] == expected[0]["messages"][1]["tool_calls"]
    episodes = export_trajectories(bfcl_reader, tmp_path / "episodes", with_tokens=True)
    again = datasets.load_dataset(str(episodes.path), cache_dir=str(tmp_path / "cache"))["train"]
    assert again[0]["steps"][0]["token_ids"] == [5, 6]
    card = yaml.safe_load((episodes.path / "README.md").read_text(encoding="utf-8").split("---")[1])
    assert datasets.Features._from_yaml_list(card["dataset_info"]["features"]) == again.features


def _lines(reader: RunReader, environment: Environment, folder: Path) -> list[str]:
    done = export_tasks(reader, folder / "tasks.jsonl", environment=environment, with_results=True)
    return done.path.read_text(encoding="utf-8").splitlines()


def test_nothing_is_replaced_unless_asked(bfcl_reader: RunReader, tmp_path: Path) -> None:
    for name in ("tasks.jsonl", "tasks"):
        path = export_tasks(bfcl_reader, tmp_path / name).path
        with pytest.raises(StoreError, match="is there already"):
            export_tasks(bfcl_reader, path)
        assert export_tasks(bfcl_reader, path, overwrite=True).rows == 2
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "README.md").write_text("my notes")
    with pytest.raises(StoreError, match="no export made"):
        export_tasks(bfcl_reader, tmp_path / "mine", overwrite=True)
    with pytest.raises(StoreError, match="is a file"):
        export_tasks(bfcl_reader, tmp_path / "tasks.jsonl", "hf", overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "tasks", "tasks.jsonl"]


def test_an_interrupted_export_leaves_what_was_there(bfcl_reader: RunReader, tmp_path: Path) -> None:
    class Interrupted(LoopToy):
        def open(self, task: Task) -> Any:
            raise KeyboardInterrupt

    for name in ("tasks.jsonl", "tasks"):
        path = export_tasks(bfcl_reader, tmp_path / name).path
        with pytest.raises(KeyboardInterrupt):
            export_tasks(bfcl_reader, path, environment=Interrupted(), overwrite=True)
        assert len(load(path)) == 2
    assert sorted(file.name for file in tmp_path.iterdir()) == ["tasks", "tasks.jsonl"]


def test_a_task_that_breaks_the_environment_is_exported_without_results(bfcl_reader: RunReader, tmp_path: Path) -> None:
    class Broken(LoopToy):
        def open(self, task: Task) -> Any:
            raise OSError("the server is gone")

    done = export_tasks(bfcl_reader, tmp_path / "tasks.jsonl", environment=Broken(), with_results=True)
    assert sorted(done.notes.values()) == [2, 2]
    assert [row["tools"] for row in load(done.path)] == [[], []]
    assert [row["replay_score"] for row in load(done.path)] == [None, None]


def test_what_cannot_be_done_is_said(bfcl_reader: RunReader, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot tell the format"):
        export_tasks(bfcl_reader, tmp_path / "tasks.csv")
    with pytest.raises(StoreError, match="no format 'csv'"):
        export_tasks(bfcl_reader, tmp_path / "tasks", "csv")
    with pytest.raises(StoreError, match="give the run's environment"):
        export_tasks(bfcl_reader, tmp_path / "tasks", with_results=True)
    with pytest.raises(StoreError, match="cannot write"):
        export_tasks(bfcl_reader, "/proc/nowhere/tasks.jsonl")
