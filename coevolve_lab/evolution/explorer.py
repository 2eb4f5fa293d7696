"""What every explorer does, scripted or LLM: reflect, explore, abstract (sections 3.2, 3.3). Records in and out."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from coevolve_lab.config import EvolutionConfig
from coevolve_lab.environments.base import Environment
from coevolve_lab.errors import ConfigError, ExplorerError
from coevolve_lab.records import (
    ExplorationContext,
    Judgement,
    ModelCall,
    Signal,
    Task,
    TaskDraft,
    Trajectory,
    Triplet,
)


@dataclass(frozen=True)
class Occasion:
    """One call of a stage: ids and random draws follow from it and from nothing else.

    seed: the run's. call: 0 the first time that a stage is called in a round, then 1, 2, ..., so that a stage that is
    called again makes new ids and new draws.
    """

    round: int
    seed: int = 0
    call: int = 0

    def ident(self, kind: str, index: int | str) -> str:
        """An id unique within the run: "ctx-r3-0", or "ctx-r3.1-0" on the second call."""
        call = f".{self.call}" if self.call else ""
        return f"{kind}-r{self.round}{call}-{index}"

    def rng(self, *purpose: object) -> random.Random:
        """A generator for one purpose; the same arguments give the same draws on every machine."""
        return random.Random("/".join(map(str, (self.seed, self.round, self.call, *purpose))))


class Explorer(Protocol):
    """Stage 2 and the first half of stage 3. ``name`` marks everything it makes: "scripted", "llm:<model>".

    An explorer keeps no state between calls. One failing rollout or context never raises: what it left is returned.
    Raises ExplorerError when it cannot work at all.
    """

    name: str

    @property
    def exhausted(self) -> str:
        """Which budget ended the present evolution ("deadline", "tokens", "cost"); "" while none has."""
        ...

    def reflect(
        self, signals: Sequence[Signal], trajectories: Sequence[Trajectory], tasks: Sequence[Task], occasion: Occasion
    ) -> list[ExplorationContext]:
        """One context per signal, in order; every statement in it is grounded in the signal's trajectory and group.

        A signal of which no such context could be made is left out; ids go on counting, so that they tell which.
        trajectories: at least the whole groups that the signals belong to; tasks: at least theirs. A signal that occurs
        twice is reflected on twice.
        """
        ...

    def explore(self, contexts: Sequence[ExplorationContext], occasion: Occasion) -> list[Triplet]:
        """R independent rollouts of S steps for each context, each in a fresh session opened at ``context.start``."""
        ...

    def abstract(
        self, triplets: Sequence[Triplet], contexts: Sequence[ExplorationContext], occasion: Occasion
    ) -> list[TaskDraft]:
        """Task drafts whose solutions were executed during exploration; similar behaviour is merged into one draft."""
        ...

    def model_calls(self) -> list[ModelCall]:
        """What was asked of a model since this was asked last; [] from an explorer that asks none."""
        ...


@runtime_checkable
class DraftJudge(Protocol):
    """An explorer that can also judge drafts, as the paper's LLM does (section 3.3)."""

    def judge(self, drafts: Sequence[TaskDraft], occasion: Occasion, max_steps: int) -> list[Judgement]:
        """One judgement per draft, in order. Raises ExplorerError when it cannot work at all.

        max_steps: most actions of the agent that executes a draft, over all user turns. May be called several times on
        one occasion, about other drafts: the drafts tell the judgements' ids apart.
        """
        ...


class ExplorerFactory(Protocol):
    """Makes an explorer. folder: where the run keeps what the explorer itself records; None: it keeps nothing."""

    def __call__(self, environment: Environment, config: EvolutionConfig, folder: Path | None) -> Explorer: ...


_FACTORIES: dict[str, ExplorerFactory] = {}


def register_explorer(name: str, factory: ExplorerFactory) -> None:
    """Make ``factory(environment, config, folder)`` available as ``make_explorer(name, ...)``; the latest one counts.

    Its own settings arrive as ``config.explorer.options``.
    """
    _FACTORIES[name] = factory


def make_explorer(name: str, environment: Environment, config: EvolutionConfig, folder: Path | None = None) -> Explorer:
    """The explorer registered as ``name``. Raises ExplorerError if there is none, or if it cannot explore here."""
    if name not in _FACTORIES:
        raise ExplorerError(
            f"no explorer '{name}'; registered: {', '.join(sorted(_FACTORIES))} (register_explorer adds)"
        )
    return _FACTORIES[name](environment, config, folder)


def judge_of(explorer: Explorer) -> DraftJudge:
    """The explorer as a judge. Raises ConfigError when it is none."""
    if not isinstance(explorer, DraftJudge):
        raise ConfigError(
            f"evolution.judge needs an explorer that can judge, and '{explorer.name}' cannot: use one of kind llm, or "
            "leave judge off"
        )
    return explorer
