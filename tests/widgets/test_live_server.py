"""The dashboard's status line about the server that samples, and the gap when rollouts are stale."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coevolve_lab import records as r
from coevolve_lab.config import load_config
from coevolve_lab.store import RunWriter
from coevolve_lab.widgets.live import Dashboard, dashboard
from coevolve_lab.widgets.progress_queries import look


def _update(step: int, gap: float, **more: Any) -> r.Update:
    return r.Update(step, 1, step, 0.5, 0.0, 1e-3, 0.0, 1.0, gap, 0.5, 1e-6, 16, 2, 2, 0, 128, 5000, 2500, 1.0, **more)


def _board(run_dir: Path, records: list[Any], kind: str = "vllm") -> Dashboard:
    with RunWriter.create(run_dir, load_config({"engine": {"kind": kind}})) as writer:
        writer.append(records)
        writer.commit(1)
    board = dashboard(run_dir, every=0)
    assert isinstance(board, Dashboard), board
    assert not board.error
    board.close()
    return board


def test_what_the_server_did_is_said(tmp_path: Path) -> None:
    costs = [
        r.StageCost(1, "rollout", 5.0, 128, swaps=1, swap_seconds=9.0),
        r.StageCost(1, "train", 5.0, 128),
        r.StageCost(1, "rollout", 5.0, 128, swaps=2, swap_seconds=0.25, missed=3, restarts=1),
        r.StageCost(1, "evaluate", 5.0, 128, missed=4),
    ]
    updates = [_update(1, 0.01), _update(2, 0.5, staleness_largest=1), _update(3, 0.5, staleness_largest=1, stale=8)]
    said = str(_board(tmp_path / "run", [*costs, *updates]).status_line.value)
    for words in ("3 versions arrived, the last in 0.25 s", "at most 1 version behind", "8 refused as older"):
        assert words in said
    assert "restarts</span> 1" in said
    assert "requests given up</span> 7" in said
    assert "log-prob gap" not in said  # over the alarm, but of stale rollouts


def test_of_a_server_without_trouble_little_is_said(tmp_path: Path) -> None:
    costs = [r.StageCost(1, "rollout", 5.0, 1, swaps=1, swap_seconds=0.5)]
    said = str(_board(tmp_path / "run", costs).status_line.value)
    assert "server: 1 version arrived, in 0.5 s" in said
    assert not any(words in said for words in ("restarts", "given up", "behind", "refused"))


def test_without_a_server_nothing_is(tmp_path: Path) -> None:
    assert "server" not in str(_board(tmp_path / "run", [r.StageCost(1, "rollout", 5.0, 1)], "torch").status_line.value)


def test_the_gap_is_drawn_where_it_is_the_samplers(tmp_path: Path) -> None:
    updates = [_update(step, 0.01 * step, staleness_largest=int(step % 3 > 0)) for step in range(7)]
    board = _board(tmp_path / "run", updates)
    assert list(board.live.traces["gap"].x) == [0, 3, 6]
    assert list(board.live.traces["gap"].y) == pytest.approx([0, 0.03, 0.06])
    assert look(board._reader).updates["staleness"].to_list() == [0, 1, 1, 0, 1, 1, 0]
