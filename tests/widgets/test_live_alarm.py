"""The dashboard's status line when the sampler is not the policy that is trained."""

from __future__ import annotations

from pathlib import Path

import pytest

from coevolve_lab import records as r
from coevolve_lab.config import Config, TrainingConfig
from coevolve_lab.store import RunWriter
from coevolve_lab.widgets.live import Dashboard, dashboard


def _status(run_dir: Path, gaps: list[float], **training: float) -> str:
    tree = Config().model_dump(mode="json")
    del tree["training"]["gap_alarm"]  # as in a run that was begun before there was an alarm
    tree["training"] |= training
    with RunWriter.create(run_dir, tree) as writer:
        writer.append(
            r.Update(i + 1, 1, i, 0.5, 0.0, 1e-3, 0.0, 1.0, gap, 0.5, 1e-6, 16, 2, 2, 0, 128, 5000, 2500, 1.0)
            for i, gap in enumerate(gaps)
        )
        writer.commit(1)
    board = dashboard(run_dir, every=0)
    assert isinstance(board, Dashboard), board
    try:
        assert not board.error
        return str(board.status_line.value)
    finally:
        board.close()


def test_a_gap_over_the_alarm_stays_in_sight(tmp_path: Path) -> None:
    shown = _status(tmp_path / "run", [0.01, 0.4, 0.25, 0.02], gap_alarm=0.2)
    assert "log-prob gap" in shown
    assert "0.4 nats a token at step 2, now 0.02 (alarm at 0.2)" in shown


@pytest.mark.parametrize("share", [0.9, 1.1])
def test_an_older_run_is_held_to_the_default(tmp_path: Path, share: float) -> None:
    shown = _status(tmp_path / "run", [share * TrainingConfig().gap_alarm])
    assert ("log-prob gap" in shown) == (share > 1)
