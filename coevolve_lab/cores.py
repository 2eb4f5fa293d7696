"""How many threads numerics get: with more of them than free cores torch is ten to twenty times slower."""

from __future__ import annotations

import os
from pathlib import Path

# A container's quota in control groups v2: "<microseconds> <period>", or "max <period>" for none. Affinity ignores it.
CPU_MAX = Path("/sys/fs/cgroup/cpu.max")


def usable_cores() -> int:
    """Cores that this process may use: those it is bound to, or fewer where its container has a quota (rounded up)."""
    bound = len(os.sched_getaffinity(0))
    if not CPU_MAX.exists():
        return bound
    quota, period = CPU_MAX.read_text().split()
    return bound if quota == "max" else min(bound, -(-int(quota) // int(period)))


def available_threads(configured: int | None) -> int:
    """Torch threads for a run: ``configured``, else all usable cores, or fewer where OMP_NUM_THREADS says so."""
    if configured is not None:
        return configured
    variable = os.environ.get("OMP_NUM_THREADS", "")
    wanted = int(variable) if variable.isdecimal() else 0  # it may be a list, one number for each level of nesting
    return min(usable_cores(), wanted) if wanted else usable_cores()
