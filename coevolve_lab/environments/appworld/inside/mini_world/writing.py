"""Writes worlds and tasks to disk, in the layout that the package reads."""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mini_world import check_parts, oracle_parts
from mini_world.people import Person
from mini_world.scenario import Case, Loaded
from mini_world.world import NOW, World

ANSWER_BYTES = 256


def write_task(world: World, task_id: str, loaded: Loaded, me: Person, case: Case, root: Path) -> None:
    """The whole folder of a task but for ``test_data.json``, which is known once the check has been run."""
    from appworld.common.constants import DB_VERSION

    folder = root / "data" / "tasks" / task_id
    truth = folder / "ground_truth"
    truth.mkdir(parents=True)
    supervisor = {
        "first_name": me.first_name,
        "last_name": me.last_name,
        "email": me.email,
        "phone_number": me.phone_number,
    }
    instruction = loaded.scenario.instruction.format(**case.public)
    _add_supervisor(world, me, supervisor, instruction)
    _write_json(
        folder / "specs.json",
        {
            "instruction": instruction,
            "supervisor": supervisor,
            "datetime": NOW.isoformat(),
            "db_version": DB_VERSION,
        },
    )
    world.models.save(db_home_path=str(folder / "dbs"), format="changes", delete_if_exists=True)
    oracle = _oracle(loaded, case)
    # All as long as the others: how large a file is can be asked even by code that cannot open it.
    (truth / "answer.json").write_text(json.dumps(case.answer).ljust(ANSWER_BYTES))
    _write_json(truth / "public_data.json", case.public)
    _write_json(truth / "private_data.json", case.private)
    _write_json(truth / "test_data.json", None)
    _write_json(truth / "required_apps.json", list(loaded.scenario.apps))
    (truth / "solution.py").write_text(oracle)
    (truth / "compiled_solution.py").write_text(oracle)
    check = ["import json", _bare(check_parts.given_answer), _bare(loaded.module.evaluate)]
    (truth / "evaluation.py").write_text("\n\n\n".join(check) + "\n")
    _write_json(
        truth / "metadata.json",
        {
            "mode": "full",
            "difficulty": loaded.scenario.difficulty,
            "num_apps": len(loaded.scenario.apps),
            "num_solution_code_lines": len(inspect.getsource(loaded.module.solution).splitlines()),
        },
    )


def write_dataset(root: Path, split: str, task_ids: list[str]) -> None:
    folder = root / "data" / "datasets"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{split}.txt").write_text("".join(f"{task_id}\n" for task_id in task_ids))


def _add_supervisor(world: World, me: Person, supervisor: dict[str, Any], instruction: str) -> None:
    row = world.add("supervisor", "Supervisor", birthday=me.birthday, sex=me.sex, **supervisor)
    world.add("supervisor", "Task", supervisor_id=row.id, instruction=instruction)
    world.add("supervisor", "Address", supervisor_id=row.id, name="Home", **me.home)
    world.add("supervisor", "Address", supervisor_id=row.id, name="Work", **me.work)
    world.add("supervisor", "PaymentCard", supervisor_id=row.id, **me.card)
    for app, password in me.passwords.items():
        world.add("supervisor", "AccountPassword", supervisor_id=row.id, account_name=app, password=password)


def _oracle(loaded: Loaded, case: Case) -> str:
    """The package calls ``solution(apis, requester)``; ours is called with the values that the instruction names."""
    parts = [_bare(part) for part in (oracle_parts.login, oracle_parts.every_page, oracle_parts.date_today)]
    body = _bare(loaded.module.solution).replace("def solution(", "def solve(", 1)
    return "\n\n\n".join([*parts, body, f"def solution(apis, requester):\n    solve(apis, {case.public!r})"]) + "\n"


def _bare(function: Callable[..., Any]) -> str:
    """Its source without annotations: where it is going, the names in them do not exist."""
    tree = ast.parse(inspect.getsource(function))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
    return ast.unparse(tree)


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n")
