"""Threads: as configured, else what the machine, its container and the environment leave."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from coevolve_lab import cores


@pytest.fixture(autouse=True)
def cpu_max(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file with the container's quota, of which there is none at first; the process is bound to four cores."""
    monkeypatch.setattr(cores, "CPU_MAX", tmp_path / "cpu.max")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 2, 4, 6})
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    return tmp_path / "cpu.max"


@pytest.mark.parametrize(
    ("quota", "expected"),
    [(None, 4), ("max 100000\n", 4), ("150000 100000\n", 2), ("50000 100000\n", 1), ("900000 100000\n", 4)],
)
def test_a_containers_quota_counts(cpu_max: Path, quota: str | None, expected: int) -> None:
    if quota is not None:
        cpu_max.write_text(quota)
    assert cores.usable_cores() == expected


@pytest.mark.parametrize(
    ("variable", "expected"), [("1", 1), ("3", 3), ("64", 4), ("0", 4), ("", 4), ("2,1", 4), ("-1", 4), ("many", 4)]
)
def test_the_variable_lowers_what_nobody_configured(
    monkeypatch: pytest.MonkeyPatch, variable: str, expected: int
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", variable)
    assert cores.available_threads(None) == expected
    assert cores.available_threads(7) == 7
