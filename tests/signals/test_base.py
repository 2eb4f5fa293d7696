from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from coevolve_lab.config import SignalsConfig
from coevolve_lab.errors import ConfigError
from coevolve_lab.signals import Detector, build_detectors, find_signals, register_signal, registered_signals
from coevolve_lab.signals import base as signals_base

Visit = Callable[..., Any]


@pytest.fixture(autouse=True)
def _registry_as_it_was() -> Any:
    before = dict(signals_base._REGISTRY)
    yield
    signals_base._REGISTRY.clear()
    signals_base._REGISTRY.update(before)


def _three(**options: Any) -> list[Detector]:
    return build_detectors(SignalsConfig.model_validate({"rare": {"n_min": 4, "theta": 40}, **options}))


def _history(visit: Visit) -> list[Any]:
    tools = [["cd", "ls"], ["cd", "ls"], ["cd", "mv"]]
    batch = []
    for step, scores in enumerate([[1, 1, 1], [0, 1, 1], [0, 0, 0], [0, 0, 1]]):
        batch += visit(step, "a", scores, tools) + visit(step, "b", scores[::-1], tools)
    return batch


def test_the_config_switches_signals_on_and_off() -> None:
    assert [d.kind for d in build_detectors(SignalsConfig())] == ["forgetting", "boundary", "rare"]
    assert [d.kind for d in build_detectors(SignalsConfig(forgetting=None, rare=None))] == ["boundary"]


def test_one_trajectory_may_carry_several_signals_and_ids_are_deterministic(visit: Visit) -> None:
    signals = find_signals(_three(), _history(visit))
    assert {s.kind for s in signals} == {"forgetting", "boundary", "rare"}
    assert all(s.id == f"{s.kind}:{s.trajectory_id}" for s in signals)
    assert len({s.id for s in signals}) == len(signals)
    on_one = {s.kind for s in signals if s.trajectory_id == "s3-b-2"}
    assert on_one == {"forgetting", "boundary", "rare"}
    assert signals == find_signals(_three(), _history(visit))


def test_batches_of_many_steps_are_found_as_step_by_step(visit: Visit) -> None:
    together, singly = _three(), _three()
    history = _history(visit)
    expected = find_signals(together, reversed(history))
    found = [s for step in range(4) for s in find_signals(singly, [t for t in history if t.step == step])]
    assert sorted(s.id for s in found) == sorted(s.id for s in expected)
    assert [d.state() for d in singly] == [d.state() for d in together]


def test_repeating_a_step_finds_the_same_and_counts_nothing_twice(visit: Visit) -> None:
    detectors = _three()
    history = _history(visit)
    find_signals(detectors, history[:-6])
    first = find_signals(detectors, history[-6:])
    state = json.dumps([d.state() for d in detectors])
    assert find_signals(detectors, history[-6:]) == first
    assert json.dumps([d.state() for d in detectors]) == state


def test_state_survives_json_and_the_detectors_go_on_alike(visit: Visit) -> None:
    uninterrupted, before = _three(), _three()
    history = _history(visit)
    expected = find_signals(uninterrupted, history)[-6:]
    find_signals(before, history[:-6])
    after = _three()
    for old, new in zip(before, after, strict=True):
        new.load(json.loads(json.dumps(old.state())))
    assert find_signals(after, history[-6:])[-6:] == expected
    assert [d.state() for d in after] == [d.state() for d in uninterrupted]


@pytest.mark.parametrize("change", [{"purpose": "evaluate"}, {"status": "env_error"}, {"status": "engine_error"}])
def test_what_says_nothing_about_training_is_neither_marked_nor_counted(visit: Visit, change: dict[str, str]) -> None:
    detectors = _three()
    state = [d.state() for d in detectors]
    assert find_signals(detectors, visit(0, "a", [1, 0], [["cd"], ["ls"]], **change)) == []
    assert [d.state() for d in detectors] == state


def test_a_signal_of_ones_own_and_its_redefinition(visit: Visit) -> None:
    @register_signal("slow")
    class Slow(Detector):
        def __init__(self, calls: int = 8) -> None:
            self.calls = calls

        def detect(self, trajectories: Any) -> Any:
            return [self.mark(t, detail=f"{len(t.tools)} calls") for t in trajectories if len(t.tools) > self.calls]

    batch = visit(0, "a", [1, 1], [["cd"], ["cd", "ls", "mv"]])
    config = SignalsConfig(forgetting=None, boundary=None, rare=None, custom={"slow": {"calls": 2}})
    (signal,) = find_signals(build_detectors(config), batch)
    assert (signal.id, signal.detail) == ("slow:s0-a-1", "3 calls")

    @register_signal("slow")
    class Slower(Slow):
        def detect(self, trajectories: Any) -> Any:
            return []

    assert find_signals(build_detectors(config), batch) == []
    assert "slow" in registered_signals()


def test_a_class_under_two_names_is_two_signals(visit: Visit) -> None:
    class Every(Detector):
        def detect(self, trajectories: Any) -> Any:
            return [self.mark(t) for t in trajectories]

    for name in ("first", "second"):
        register_signal(name)(Every)
    config = SignalsConfig(forgetting=None, boundary=None, rare=None, custom={"first": {}, "second": {}})
    found = find_signals(build_detectors(config), visit(0, "a", [1]))
    assert [(s.kind, s.id) for s in found] == [("first", "first:s0-a-0"), ("second", "second:s0-a-0")]


def test_wrong_names_options_and_classes_are_explained() -> None:
    with pytest.raises(ConfigError, match="did you mean 'forgetting'"):
        build_detectors(SignalsConfig(custom={"forgeting": {}}))
    with pytest.raises(ConfigError, match="does not take these options"):
        build_detectors(SignalsConfig(custom={"boundary": {"treshold": 1}}))
    with pytest.raises(ConfigError, match="window must be at least 1"):
        build_detectors(SignalsConfig(custom={"forgetting": {"window": 0}}))
    with pytest.raises(ConfigError, match="Detector"):
        register_signal("plain")(dict)  # type: ignore[type-var]
