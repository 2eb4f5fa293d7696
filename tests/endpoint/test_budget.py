"""What an evolution has used up, with the clock in the test's hand."""

from __future__ import annotations

import pytest

from coevolve_lab.endpoint import Limits
from coevolve_lab.endpoint.budget import Budget


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("coevolve_lab.endpoint.budget.time", clock)
    return clock


def test_time_runs_while_somebody_waits_for_a_call(clock: Clock) -> None:
    budget = Budget(Limits(call_seconds=60, seconds=100))
    clock.now += 1e6  # a person reads
    with budget.waiting():
        clock.now += 30
        with budget.waiting():  # two calls at once take no time twice
            clock.now += 30
        assert budget.call_seconds() == 40
    clock.now += 1e6
    assert (budget.seconds(), budget.check(), budget.exhausted) == (60, "", "")
    with budget.waiting():
        clock.now += 40
        assert (budget.check(), budget.exhausted, budget.call_seconds()) == ("deadline", "deadline", 0)


def test_the_first_limit_that_stopped_something_is_named(clock: Clock) -> None:
    budget = Budget(Limits(tokens=10, cost=1.0))
    budget.spend(9, 0.5)
    assert (budget.check(), budget.call_seconds()) == ("", 120)
    budget.spend(0, 0.5)
    assert budget.check() == "cost"
    budget.spend(1, 0.0)
    assert (budget.check(), budget.exhausted) == ("tokens", "cost")


def test_without_limits_nothing_stops(clock: Clock) -> None:
    budget = Budget(Limits())
    budget.spend(10**9, 1e9)
    with budget.waiting():
        clock.now += 1e9
        assert (budget.check(), budget.exhausted) == ("", "")
