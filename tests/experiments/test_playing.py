"""What is wrong with a run is said before it is played."""

from __future__ import annotations

from pathlib import Path

import pytest

from coevolve_lab.errors import ConfigError
from coevolve_lab.experiments.plan import expand
from coevolve_lab.experiments.playing import play_cell
from tests.experiments.conftest import written


@pytest.mark.parametrize(
    "text",
    [
        "title: t\nenvironments: {bfcl: {split: nowhere}}\narms: {a: {method: grpo}}",
        "title: t\narms: {a: {method: grpo, elsewhere: {x: {set: {environment: {evaluation_split: nowhere}}}}}}",
    ],
)
def test_a_split_that_there_is_not_is_missed_before_the_run(tmp_path: Path, text: str) -> None:
    (cell,) = expand(written(tmp_path, text), "small", tmp_path, seeds=[0]).cells
    with pytest.raises(ConfigError, match=r"'bfcl' has no split 'nowhere'; it has .*held_out"):
        play_cell(cell, tmp_path)
    assert not (tmp_path / cell.key).exists()
