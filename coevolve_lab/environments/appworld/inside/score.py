"""The scoring process: holds the answers, runs the package's own evaluation, and no code of an agent.

It reads a copy of the databases that a world process saved. Requests on the owner's socket: {"score": task, "dbs"} ->
{"success", "passed", "failed"}, {"diff": task, "dbs"} -> {"changes"}.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import frames
import sandbox

MEMORY_BYTES = 2 << 30
FILE_BYTES = 256 << 20
_EXPERIMENT = "scored"


def main(owner: socket.socket, job: Mapping[str, Any], parent: int) -> None:
    """Answer one request. job: root (a folder of its own whose ``data`` holds the ground truth)."""
    sandbox.die_with_parent(parent)
    sandbox.limit(MEMORY_BYTES, 256, FILE_BYTES)
    request = frames.receive(owner, None)
    try:
        from appworld import update_root

        update_root(job["root"])
        os.chdir(job["root"])
        if "score" in request:
            answer = _score(request["score"], _copy(job["root"], request["score"], request["dbs"]))
        else:
            answer = _diff(request["diff"], _copy(job["root"], request["diff"], request["dbs"]))
    except Exception:
        answer = {"failure": traceback.format_exc(limit=-3)[-2000:]}
    frames.send(owner, answer, None)


def _copy(root: str, task: str, dbs: str) -> str:
    """Copy plain files of the package's own names to where its evaluation looks for them."""
    place = Path(root) / "experiments" / "outputs" / _EXPERIMENT / "tasks" / task / "dbs"
    place.mkdir(parents=True)
    for path in sorted(Path(dbs).iterdir()):
        if path.is_symlink() or not path.is_file() or path.suffix not in (".jsonl", ".json"):
            raise ValueError(f"{path.name} is no file of a saved episode")
        shutil.copyfile(path, place / path.name)
    return str(place)


def _score(task: str, dbs: str) -> dict[str, Any]:
    from appworld import evaluate_task

    tracker = evaluate_task(task, experiment_name=_EXPERIMENT, suppress_errors=True, save_report=False)
    failed = [failure["requirement"] for failure in tracker.failures]
    return {"success": bool(tracker.success), "passed": tracker.pass_count, "failed": failed}


def _diff(task: str, dbs: str) -> dict[str, Any]:
    """{app: {model: {"added": [row], "removed": [row], "changed": [[row before, row after]]}}}, rows sorted."""
    from appworld.apps.api_lib import set_local_date_and_time
    from appworld.collections.models import (
        ModelCollection,
        ModelCollectionPair,
    )
    from appworld.task import Task

    spec = Task.load(task_id=task, load_ground_truth=False)
    set_local_date_and_time(spec.datetime)
    home = f":memory:task_output-{task}"
    end = ModelCollection.load(to_db_home_path=home, from_db_home_path=dbs, load_apps=spec.allowed_apps)
    start = spec.model_collection
    pair = ModelCollectionPair(start.from_db_home_path, start, home, end)
    changes: dict[str, dict[str, Any]] = {}
    for name in sorted(pair.changed_model_names()):
        app, model = name.split(".")
        added, updated, removed = pair.changed_records(name)
        before = {row.id: _row(row) for row in pair.start[app][model].by_ids([row.id for row in updated])}
        after = {row.id: _row(row) for row in pair.end[app][model].by_ids([row.id for row in updated])}
        changes.setdefault(app, {})[model] = {
            "added": _sorted([_row(row) for row in added]),
            "removed": _sorted([_row(row) for row in removed]),
            "changed": _sorted([[before[key], after[key]] for key in before]),
        }
    return {"changes": changes}


def _row(record: Any) -> dict[str, Any]:
    fields = {name: getattr(record, name) for name in type(record).__fields__ if name != "record_hash"}
    return dict(json.loads(json.dumps(fields, default=str)))


def _sorted(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))
