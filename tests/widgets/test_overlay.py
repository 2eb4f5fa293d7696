"""All runs of a folder, and several over the same axes."""

from __future__ import annotations

import os
import shutil
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from coevolve_lab import runs
from coevolve_lab.store import copy_until
from coevolve_lab.widgets.overlay import Runs


@pytest.fixture
def folder(finished_dir: Path, tmp_path: Path) -> Path:
    for name in ("one", "two", "three"):
        shutil.copytree(finished_dir, tmp_path / name)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{")
    return tmp_path


def test_every_run_is_listed_and_a_damaged_one_says_so(folder: Path) -> None:
    view = runs(folder)
    assert isinstance(view, Runs), view.error
    assert "loop-toy" in view.table.value
    assert "3 of 3" in view.table.value
    assert "is damaged" in view.table.value
    assert set(view.chosen.options) == {"one", "two", "three"}
    assert "is damaged" in view._repr_mimebundle_()["text/plain"]


def test_runs_are_found_again_by_words_of_their_row(folder: Path) -> None:
    copy_until(folder / "one", folder / "what-if", 1)
    committed = datetime(2031, 5, 6, 7, 8).timestamp()
    os.utime(folder / "two" / "rounds" / "round-00003.json", (committed, committed))
    view = runs(folder)
    assert isinstance(view, Runs), view.error
    view.chosen.value = ("three",)
    drawn = view.live.traces["smooth 0"].name
    for words, names in (("fork one@1", set()), ("ONE@1 loop-toy", {"what-if"}), ("2031-05-06 07:08", {"two"})):
        view.search.value = words
        assert set(view.chosen.options) == names | {"three"}  # what is in the figure stays
        assert view.chosen.value == ("three",)
        assert ("no run under" in view.table.value) == (not names)
        assert all(name in view.table.value for name in names)
        assert ">three<" not in view.table.value
        assert all(name in view.plain()[0] for name in names)
    view.search.value = ""
    assert len(view.chosen.options) == 4
    assert view.live.traces["smooth 0"].name == drawn == "three"


def test_chosen_runs_share_the_axes_and_smoothing_keeps_the_raw_points(folder: Path) -> None:
    view = runs(folder)
    view.chosen.value = ("one", "two")
    traces = view.live.traces
    raw = np.array(traces["raw 0"].y)
    view.smoothing.value = 0.0
    assert np.allclose(traces["smooth 0"].y, raw)
    view.smoothing.value = 0.9
    assert not np.allclose(traces["smooth 0"].y, raw)
    assert np.allclose(traces["raw 0"].y, raw)
    assert len(traces["raw 1"].y) == len(raw)
    before = len(view.live.widget.data)
    view.chosen.value = ("three",)
    assert len(view.live.widget.data) == before
    assert len(traces["raw 1"].y) == 0
    assert traces["smooth 0"].name == "three"


def test_an_empty_folder_says_how_to_begin(tmp_path: Path) -> None:
    view = runs(tmp_path)
    assert "coevolve-lab demo" in view.table.value
    assert "coevolve-lab demo" in view._repr_mimebundle_()["text/html"]


def test_too_many_marked_runs_are_told_of_after_a_refresh_too(folder: Path, finished_dir: Path) -> None:
    for name in ("four", "five"):
        shutil.copytree(finished_dir, folder / name)
    view = runs(folder)
    view.chosen.value = ("one", "two", "three", "four", "five")
    assert "first 4" in view.error
    view.again.click()
    assert "first 4" in view.error
