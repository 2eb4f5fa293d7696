"""What a weakness signal is to the loop: a detector with a state, found by name in a registry.

A user's own signal is a class of a few lines, registered in a notebook cell (registering a name again replaces it)::

    @register_signal("slow")
    class Slow(Detector):
        def __init__(self, calls: int = 8):
            self.calls = calls

        def detect(self, trajectories):
            return [self.mark(t, detail=f"{len(t.tools)} calls") for t in trajectories if len(t.tools) > self.calls]

and switched on with ``signals: {custom: {slow: {calls: 6}}}``.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from coevolve_lab.config import SignalsConfig
from coevolve_lab.errors import ConfigError
from coevolve_lab.records import NOT_THE_AGENT, Signal, Trajectory


class Detector:
    """Base of signals. ``detect`` marks trajectories of one training step, ``update`` then adds them to the history.

    ``detect`` changes nothing, and sees the history of *earlier* steps only (section 3.1). Both can be repeated on the
    same step with the same result. ``state`` is JSON-able, and ``load`` takes it back: the checkpoint of design rule 7.
    """

    kind: str = ""  # the name that it was switched on by

    def detect(self, trajectories: Sequence[Trajectory]) -> list[Signal]:
        """Signals of one step's training trajectories, at most one per trajectory."""
        raise NotImplementedError(f"{type(self).__name__} must define detect(trajectories) -> list[Signal]")

    def update(self, trajectories: Sequence[Trajectory]) -> None:
        """Add one step's training trajectories to the history. A detector without history leaves this as it is."""

    def state(self) -> dict[str, Any]:
        """The history as plain JSON."""
        return {}

    def load(self, state: Mapping[str, Any]) -> None:
        """Replace the history by what ``state`` returned earlier."""

    def mark(self, trajectory: Trajectory, pattern: tuple[str, ...] = (), detail: str = "") -> Signal:
        """A signal of this kind on a trajectory. Its id is the same whenever the same trajectory is marked."""
        return Signal(
            id=f"{self.kind}:{trajectory.id}",
            kind=self.kind,
            trajectory_id=trajectory.id,
            task_id=trajectory.task_id,
            group_id=trajectory.group_id,
            round=trajectory.round,
            step=trajectory.step,
            score=trajectory.score,
            pattern=pattern,
            detail=detail,
        )


_REGISTRY: dict[str, type[Detector]] = {}
_Class = TypeVar("_Class", bound=type[Detector])


def register_signal(name: str) -> Callable[[_Class], _Class]:
    """Class decorator that makes a Detector available under ``name``, replacing an earlier one of that name."""

    def register(detector: _Class) -> _Class:
        if not (isinstance(detector, type) and issubclass(detector, Detector)):
            raise ConfigError(f"signal '{name}' must be a class derived from coevolve_lab.signals.Detector")
        detector.kind = name
        _REGISTRY[name] = detector
        return detector

    return register


def registered_signals() -> list[str]:
    """Names that ``signals.custom`` can use."""
    return sorted(_REGISTRY)


def build_detectors(config: SignalsConfig) -> list[Detector]:
    """The detectors that a config switches on. Raises ConfigError on an unknown name or on options it does not take."""
    wanted: dict[str, Mapping[str, Any]] = {}
    for name in ("forgetting", "boundary", "rare"):
        options = getattr(config, name)
        if options is not None:
            wanted[name] = options.model_dump()
    wanted.update(config.custom)
    return [_build(name, options) for name, options in wanted.items()]


def find_signals(detectors: Iterable[Detector], trajectories: Iterable[Trajectory]) -> list[Signal]:
    """Detect, then update, one training step after the other.

    Evaluation episodes, and those that the environment or the engine broke, are neither marked nor counted.
    """
    detectors = list(detectors)
    usable = [t for t in trajectories if t.purpose == "train" and t.status not in NOT_THE_AGENT]
    signals: list[Signal] = []
    for step in sorted({t.step for t in usable}):
        batch = [t for t in usable if t.step == step]
        for detector in detectors:
            signals += detector.detect(batch)
        for detector in detectors:
            detector.update(batch)
    return signals


def groups_of(trajectories: Iterable[Trajectory]) -> dict[str, list[Trajectory]]:
    """Trajectories by group_id, in order of appearance."""
    groups: dict[str, list[Trajectory]] = {}
    for trajectory in trajectories:
        groups.setdefault(trajectory.group_id, []).append(trajectory)
    return groups


def _build(name: str, options: Mapping[str, Any]) -> Detector:
    if name not in _REGISTRY:
        near = difflib.get_close_matches(name, _REGISTRY, n=1, cutoff=0.0)
        raise ConfigError(
            f"signals.custom: no signal '{name}' is registered; did you mean '{near[0]}'? "
            f"Register your own with @register_signal('{name}') before the run is opened."
        )
    try:
        detector = _REGISTRY[name](**options)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"signal '{name}' does not take these options {sorted(options)}: {error}") from None
    detector.kind = name  # of this one: a class may be registered under several names
    return detector
