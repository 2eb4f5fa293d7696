"""What the doctor finds on this machine, and on one where something is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from coevolve_lab.cli import main
from coevolve_lab.doctor import examine


def test_a_machine_that_runs_these_tests_lacks_nothing_that_runs_need(capsys: pytest.CaptureFixture[str]) -> None:
    assert not [finding for finding in examine() if finding.needed and finding.remedy]
    assert main(["doctor"]) == 0
    assert "MISSING" not in capsys.readouterr().out


def test_what_is_missing_comes_with_its_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COEVOLVE_BFCL_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("BROWSER_PATH", raising=False)
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "MISSING  bfcl" in out
    assert "coevolve-lab install bfcl" in out
    assert "optional chromium" in out
    assert "apt-get install chromium" in out


def test_more_threads_than_cores_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "4096")
    threads = next(finding for finding in examine() if finding.name == "threads")
    assert threads.remedy.startswith("export OMP_NUM_THREADS=")
    assert not threads.needed
