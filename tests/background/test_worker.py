"""The worker without a kernel: what it says when its own last steps fail."""

from __future__ import annotations

import errno
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from coevolve_lab.background.status import read_status
from coevolve_lab.background.worker import Worker
from tests.loop_world import new_run


@pytest.fixture(autouse=True)
def _interrupts_as_before() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


def test_on_a_full_disk_it_rests_and_ends_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with new_run(tmp_path / "run") as run:
        run.background.folder.mkdir()
        (run.run_dir / "run.duckdb").mkdir()  # no snapshot can take its place
        worker = Worker(run, run.background.folder, rounds=1)
        monkeypatch.setattr(run, "seed_tasks", lambda: signal.raise_signal(signal.SIGINT))
        worker.go(1)
        resting = read_status(run.background.folder)
        assert resting is not None
        assert resting.state == "paused"
        assert "resume() goes on" in resting.message
        assert "(no snapshot: StoreError: " in resting.message

        def full() -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(run, "seed_tasks", full)
        with monkeypatch.context() as patch:
            patch.setattr(run, "close", full)
            worker.go(2)
        ended = read_status(run.background.folder)
        assert ended is not None
        assert ended.state == "failed"
        assert "No space left" in ended.error
