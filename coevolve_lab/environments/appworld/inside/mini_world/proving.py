"""Checks each new task before and after its oracle has played it, and refuses one that its own check misjudges."""

from __future__ import annotations

import json
from pathlib import Path


def prove(task_id: str, root: Path) -> None:
    """Write ``test_data.json`` as the package's own generators do: which requirements hold when nothing is done.

    Raises SystemExit when the oracle does not pass the check or doing nothing does.
    """
    from appworld.environment import AppWorld
    from appworld.evaluator import TestTracker

    with AppWorld(task_id=task_id, experiment_name="proving", ground_truth_mode="full") as world:
        untouched = world.evaluate()
        world.models.reset_db_home_path()  # the evaluation leaves its own databases open
        said = world.execute(world.task.ground_truth.compiled_solution_code + "\nsolution(apis, requester)")
        solved = world.evaluate()
    if said.startswith("Execution failed") or solved.failures or not solved.passes:
        raise SystemExit(f"the oracle of {task_id} fails: {said} {json.dumps(solved.failures, indent=1)}")
    if not untouched.failures:
        raise SystemExit(f"{task_id} is solved by doing nothing")
    data = TestTracker.prepare_test_data(no_op_fail_passes=solved.passes, no_op_pass_passes=untouched.passes)
    (root / "data" / "tasks" / task_id / "ground_truth" / "test_data.json").write_text(
        json.dumps(data, indent=1) + "\n"
    )
