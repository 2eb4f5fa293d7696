"""What was exported comes back as it was; what somebody else wrote is read with suspicion."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coevolve_lab import CoEvolve
from coevolve_lab.environments import Environment
from coevolve_lab.errors import StoreError
from coevolve_lab.evolution import Guard, Occasion, validate_drafts
from coevolve_lab.evolution.similarity import make_similarity
from coevolve_lab.exchange import export_tasks, import_tasks, importing, reading
from coevolve_lab.records import ExplorationContext, Task, TaskDraft
from coevolve_lab.store import RunReader, RunWriter
from tests.loop_world import LoopToy

GOOD: dict[str, Any] = {"turns": ["go"], "solution": [["f(a=1)"]], "start": {"x": 1}}
CALLS = [{"function": {"name": "f", "arguments": "{}"}}]


def write(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def parts(task: Task | TaskDraft) -> tuple[Any, ...]:
    return task.turns, task.start, task.solution, task.environment, task.explorer


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ""])
def test_a_round_trip_changes_nothing(bfcl_reader: RunReader, bfcl: Environment, tmp_path: Path, suffix: str) -> None:
    path = export_tasks(bfcl_reader, tmp_path / f"tasks{suffix}", environment=bfcl, with_results=True).path
    imported = import_tasks(path, "bfcl", Occasion(3, call=1))
    tasks = bfcl_reader.records(Task)
    assert [parts(draft) for draft in imported.drafts] == [parts(task) for task in tasks]
    assert [draft.rollout_id for draft in imported.drafts] == ["task-0", "task-1"]
    assert {(draft.origin, draft.round) for draft in imported.drafts} == {("import", 3)}
    assert {draft.context_id for draft in imported.drafts} == {imported.context.id}
    assert imported.context == ExplorationContext(
        "import-r3.1-0", "import", 3, {}, summary=f"2 tasks imported from tasks{suffix}"
    )
    assert [draft.id for draft in imported.drafts] == ["imported-r3.1-0", "imported-r3.1-1"]


def test_imported_tasks_meet_validation_and_guard_like_any_other(toy_run: CoEvolve, tmp_path: Path) -> None:
    """The run's own tasks are duplicates to it, new to another run, and refused when their solution does not work."""
    toy = LoopToy()
    path = export_tasks(toy_run.reader, tmp_path / "tasks.jsonl").path
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    rows[0]["solution"] = [["put(key='nowhere')"]]
    drafts = import_tasks(write(path, *rows), "toy").drafts
    guard = Guard([], make_similarity("words", []), min_calls=1)
    known = toy_run.reader.records(Task)
    again = validate_drafts(drafts[1:], toy, guard, known, Occasion(0))
    assert {verdict.reason for verdict in again} == {"duplicate"}
    fresh = validate_drafts(drafts, toy, guard, [], Occasion(0))
    assert fresh[0].reason == "failed_call"
    assert [v.outcome for v in fresh[1:]] == ["accepted"] * (len(known) - 1)
    entered = [verdict.task for verdict in fresh if verdict.task is not None]
    assert {task.origin for task in entered} == {"import"}


def test_drafts_and_context_fit_the_store(tmp_path: Path) -> None:
    imported = import_tasks(write(tmp_path / "a.jsonl", GOOD), "toy")
    with RunWriter.create(tmp_path / "run", {"name": "import"}) as writer:
        writer.append([imported.context, *imported.drafts])
        assert writer.reader.records(TaskDraft) == imported.drafts
        joined = writer.reader.sql("select c.kind from drafts d join contexts c on c.id = d.context_id")
        assert joined["kind"].to_list() == ["import"]


def test_messages_alone_are_enough(tmp_path: Path) -> None:
    """As an OpenAI fine-tuning file has them, with a start state beside."""
    messages = [
        {"role": "system", "content": "Act."},
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "", "tool_calls": [{**CALLS[0], "id": "c", "type": "function"}]},
        {"role": "tool", "tool_call_id": "c", "content": "ok"},
        {"role": "assistant", "content": "Done."},
    ]
    draft = import_tasks(write(tmp_path / "a.jsonl", {"messages": messages, "start": '{"x": 1}'}), "toy").drafts[0]
    assert parts(draft) == (("go",), {"x": 1}, (("f()",),), "toy", "")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"turns": "go"}, "turns: it has to be a list, not str"),
        ({"turns": None}, "turns: it has to be a list, not missing"),
        ({"turns": []}, "turns: no user turn"),
        ({"turns": [1]}, "turns: it has to be text, not int"),
        ({"turns": ["a", "b"]}, "solution: 1 lists of calls for 2 user turns"),
        ({"turns": ["x" * 100_001]}, "turns: longer than 100000 characters"),
        ({"turns": ["\ud800"]}, "turns: it is not valid Unicode"),
        ({"turns": ["a"] * 101}, "turns: 101 entries; at most 100"),
        ({"solution": ["f()"]}, "solution: it has to be a list, not str"),
        ({"solution": [["f()"] * 501]}, "solution: 501 entries; at most 500"),
        ({"turns": ["a"] * 2, "solution": [["f()"] * 300] * 2}, "solution: more than 500 calls"),
        ({"start": None}, "start: the start state has to be an object, not NoneType"),
        ({"start": "[1]"}, "start: the start state has to be an object, not list"),
        ({"start": "{"}, "start: Expecting"),
        ({"start": '{"a": NaN}'}, "start: NaN is not a finite number"),
        ({"start": '{"a": 1e999}'}, "start: 1e999 is not a finite number"),
        ({"start": {"a": json.loads("[" * 70 + "]" * 70)}}, "start: nested deeper than 60 levels"),
        ({"start": '{"a":' + "[" * 100_000 + "]" * 100_000 + "}"}, "start: "),
        ({"environment": "bfcl"}, "environment: it is 'bfcl', and this run's is 'toy'"),
        ({"explorer": "x" * 201}, "explorer: longer than 200"),
        ({"id": 7}, "id: it has to be text, not int"),
        ({"turns": None, "solution": None}, "has neither turns and solution nor messages"),
        ({"turns": None, "solution": None, "messages": [{"role": "robot"}]}, "messages: message [0].role is 'robot'"),
        ({"turns": None, "solution": None, "messages": {}}, "messages: it has to be a list, not dict"),
        ({"turns": None, "solution": None, "messages": []}, "messages: no user turn"),
    ],
)
def test_an_error_names_file_row_and_field(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    path = write(tmp_path / "a.jsonl", GOOD, {**GOOD, **change})
    with pytest.raises(StoreError) as caught:
        import_tasks(path, "toy")
    assert str(caught.value).startswith(f"{path} line 2")
    assert problem in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"{", "line 2 is not JSON"),
        (b"[]", "line 2 is no JSON object"),
        (b"\xff", "line 2 is not JSON: 'utf-8'"),
        (b'{"start": NaN}', "line 2 is not JSON: NaN is not a finite number"),
        (b"[" * 100_000, "line 2 is not JSON"),
        (b"1" * 10_000, "line 2 is not JSON"),
    ],
)
def test_lines_that_are_no_rows(tmp_path: Path, line: bytes, problem: str) -> None:
    path = write(tmp_path / "a.jsonl", GOOD)
    path.write_bytes(path.read_bytes() + line + b"\n")
    with pytest.raises(StoreError) as caught:
        import_tasks(path, "toy")
    assert problem in str(caught.value)


def test_sizes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.jsonl", *[GOOD] * 3)
    with pytest.raises(StoreError, match="more than 2 rows"):
        import_tasks(path, "toy", most_rows=2)
    assert len(import_tasks(path, "toy", most_rows=3).drafts) == 3
    monkeypatch.setattr(importing, "MAX_START_CHARS", 5)
    with pytest.raises(StoreError, match="start: longer than 5 characters"):
        import_tasks(write(path, {**GOOD, "start": '{"x": 1}'}), "toy")
    monkeypatch.setattr(reading, "MAX_ROW_BYTES", 20)
    with pytest.raises(StoreError, match="line 1 is longer than 20 bytes"):
        import_tasks(path, "toy")


def test_parquet_of_others_is_read_with_suspicion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"turns": [["go"], [None]], "solution": [[["f()"]]] * 2, "start": ["{}"] * 2}), path)
    with pytest.raises(StoreError, match=r"a.parquet row 2, turns: it has to be text, not missing"):
        import_tasks(path, "toy")
    pq.write_table(pa.table({"turns": [b"\xff"], "start": [1.5]}), path)
    with pytest.raises(StoreError, match=r"row 1, turns: it has to be a list, not bytes"):
        import_tasks(path, "toy")
    pq.write_table(pa.table({"start": ["x" * 1000] * 1000}), path)  # one value in the file, a thousand in memory
    assert path.stat().st_size < 20_000
    monkeypatch.setattr(reading, "MAX_ROW_BYTES", 500)
    with pytest.raises(StoreError, match="rows from 1 on are longer than 500 bytes"):
        import_tasks(path, "toy")
    monkeypatch.setattr(reading, "MAX_FILE_BYTES", 100)
    with pytest.raises(StoreError, match=r"unpacks to .* bytes; at most 100"):
        import_tasks(path, "toy")
    path.write_bytes(b"PAR1 this is no such file PAR1")
    with pytest.raises(StoreError, match="cannot be read as Parquet"):
        import_tasks(path, "toy")


@pytest.mark.parametrize("column", ["turns", "messages"])
def test_a_small_parquet_file_does_not_fill_the_memory(tmp_path: Path, column: str) -> None:
    """One text of 100 kB that stands a thousand times in a row."""
    path, text = tmp_path / "a.parquet", "x" * 100_000
    rows = {"turns": [[text] * 1000], "messages": [[{"role": "user", "content": text}] * 1000]}
    pq.write_table(pa.table({column: rows[column]}), path)
    assert path.stat().st_size < 200_000
    usual, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(pool)
    try:
        with pytest.raises(StoreError, match="rows from 1 on are longer"):
            import_tasks(path, "toy")
    finally:
        pa.set_memory_pool(usual)
    assert pool.max_memory() < 10_000_000


@pytest.mark.parametrize(
    ("values", "written"),
    [
        (pa.array([b"x" * 1000] * 100, pa.binary(1000)), {}),
        (pa.array(["x" * 1000] * 100), {"use_dictionary": False, "column_encoding": {"start": "DELTA_BYTE_ARRAY"}}),
    ],
    ids=["of one length", "as differences"],
)
def test_parquet_that_can_unpack_to_any_length_is_refused(
    tmp_path: Path, values: pa.Array, written: dict[str, Any]
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"start": values}), path, **written)
    with pytest.raises(StoreError, match=r"holds start as .*; write it as strings"):
        import_tasks(path, "toy")


def test_long_lists_count_as_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"turns": [[1] * 100_000]}), path)  # a run of one number: some bytes
    monkeypatch.setattr(reading, "MAX_FILE_BYTES", 500_000)
    with pytest.raises(StoreError, match=r"unpacks to 800000 bytes; at most 500000"):
        import_tasks(path, "toy")


def test_paths_that_hold_nothing(tmp_path: Path) -> None:
    for name, problem in [("a.csv", "neither"), ("a.jsonl", "does not exist")]:
        with pytest.raises(StoreError, match=problem):
            import_tasks(tmp_path / name, "toy")
    (tmp_path / "data").mkdir()
    with pytest.raises(StoreError, match=r"holds no .jsonl or .parquet file"):
        import_tasks(tmp_path, "toy")
    with pytest.raises(StoreError, match="holds no rows"):
        import_tasks(write(tmp_path / "empty.jsonl"), "toy")
