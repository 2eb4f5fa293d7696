"""Imported into a kernel: the toy world, with rounds slow enough to be asked for something while they run."""

from __future__ import annotations

import time
from typing import Any

from coevolve_lab import stages
from tests import loop_world  # noqa: F401  (registers the environment)

_find_signals = stages.find_signals


def find_signals(*given: Any) -> Any:
    time.sleep(0.4)
    return _find_signals(*given)


stages.find_signals = find_signals
