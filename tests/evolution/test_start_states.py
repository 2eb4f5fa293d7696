from __future__ import annotations

import pytest

from coevolve_lab.errors import EnvironmentFailure
from coevolve_lab.evolution.llm.transcripts import tool_names
from coevolve_lab.evolution.start_states import offered_tools, open_start, replayed
from coevolve_lab.records import Task
from tests.evolution.conftest import START
from tests.evolution.toy_world import ToySession, ToyWorld


class BrokenWorld(ToyWorld):
    def open(self, task: object) -> ToySession:
        raise EnvironmentFailure("no such start")


def test_calls_are_played_alone_and_the_failing_ones_dropped(world: ToyWorld) -> None:
    calls = ["erase(key='ant')", "show(key='ant')", "total()", "that is all", "reset(counter='cat')"]
    assert replayed(world, START, calls) == ["erase(key='ant')", "total()", "that is all"]  # words end the episode


def test_a_start_offers_its_tools(world: ToyWorld) -> None:
    assert tool_names(offered_tools(world, START)) == list(world.tool_names(START))
    assert open_start(world, START).observation == "Explore."


def test_a_start_that_cannot_be_opened_offers_nothing() -> None:
    assert offered_tools(BrokenWorld(), START) == []
    assert replayed(BrokenWorld(), START, ["total()"]) == []
    with pytest.raises(EnvironmentFailure, match="no such start"):
        open_start(BrokenWorld(), START)


class DividingSession(ToySession):
    def step(self, action: str) -> tuple[str, bool]:
        raise ZeroDivisionError


class DividingWorld(ToyWorld):
    def open(self, task: Task) -> ToySession:
        return DividingSession(task)


def test_a_benchmark_whose_code_breaks_on_a_call_sinks_nothing_else() -> None:
    assert replayed(DividingWorld(), START, ["total()"]) == []
