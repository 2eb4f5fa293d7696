"""What all checks use; the source is written into every task's ``evaluation.py``."""

from __future__ import annotations

import json
from typing import Any


def given_answer(models: Any) -> Any:
    """None when the task was completed without an answer; a text of the package's when it was not completed."""
    return json.loads(models.end.supervisor.Task.first().answer)
