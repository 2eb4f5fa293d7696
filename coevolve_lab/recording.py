"""What is done in a run and not yet committed: the round in progress, how stages put their records and costs on record,
and what they work with.

The stages themselves are ``stages.Stages``.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from coevolve_lab.assembly import Parts, assemble
from coevolve_lab.evolution import Occasion
from coevolve_lab.interrupts import Interrupts
from coevolve_lab.policy.vllm_engine import VllmEngine
from coevolve_lab.records import ExplorationContext, Signal, StageCost, Task, Trajectory
from coevolve_lab.run import Run


@dataclass
class Work:
    """What a stage call did, for its cost record. records: of a stage of one's own (``Recording.own_stage``)."""

    items: int = 0
    tokens: int = 0
    calls: int = 0
    records: list[Any] = field(default_factory=list)


class Recording(Run):
    """See ``CoEvolve``, whose instances these are. Holds what the round in progress has so far."""

    _parts: Parts | None

    def _begin(self, run_dir: Path, progress: bool) -> None:
        self._parts = None
        self._interrupts = Interrupts()
        self._told: tuple[int, int, int] = (0, 0, 0)  # what the cost records know of the server
        super()._begin(run_dir, progress)
        self._fresh_round(0)

    def close(self) -> None:
        """Let others write to the run. What was not committed is lost to it."""
        super().close()
        parts, self._parts = self._parts, None
        if parts is not None:
            parts.close()

    @property
    def parts(self) -> Parts:
        """What the run works with: environment, policy, trainer, explorer, D_t."""
        return self._ready()

    @property
    def task_set(self) -> list[Task]:
        """D_t as records."""
        return list(self._ready().task_set)

    @property
    def step(self) -> int:
        """Training steps done so far."""
        return self._ready().step

    # ---- for stages that are not of the ring (methods/)

    @contextmanager
    def own_stage(self, name: str) -> Iterator[Work]:
        """A stage of one's own in the round in progress: what it leaves in ``work.records`` is recorded, with its cost.

        Nothing is recorded when it raises, but what it cost.
        """
        self._ready()
        with self._stage(name) as work:
            yield work
            self._finish(name, work.records)

    def bar(self, what: str, total: int) -> Any:
        """A progress bar (``with run.bar(...) as bar: bar.update(1)``): of tqdm, or of whoever watches the run."""
        label = f"round {self.round_in_progress} step {self._steps_done + 1} {what}" if what == "rollout" else what
        if self.watcher is not None:
            return self.watcher.bar(label, total)
        return tqdm(total=total, desc=label, leave=False, disable=not self._progress)

    # ---- plumbing

    def _ready(self) -> Parts:
        """The parts, assembled on first use: a run that is only looked at loads no model."""
        if self._parts is None:
            committed = self._write().committed_round
            self._fresh_round(0 if committed is None else committed + 1)
            with self._stage("assemble"), self.bar("warm start", 0) as bar:
                self._told = (0, 0, 0)
                self._parts = assemble(self.config, self.reader, _supervised_bar(bar))
        return self._parts

    def _fresh_round(self, number: int) -> None:
        self.round_in_progress = number
        self._steps_done = 0
        self._calls: Counter[Any] = Counter()
        self._round_signals: list[Signal] = []
        self._begun = False  # whether this round has records
        self._reviewed = False  # whether round() has taken up what people decided
        self._round_trajectories: list[Trajectory] = []
        self._round_tasks: dict[str, Task] = {}  # that were rolled out, in D_t or not
        self._step_so_far: dict[str, Any] = {}  # what round() has from each stage it is through with
        self._evolution_so_far: dict[str, Any] = {}
        self._contexts: dict[str, ExplorationContext] = {}

    def _finish(self, stage: str, records: Sequence[Any]) -> None:
        """Take a stage's records. Only now its call counts: one that was interrupted is made again as if for the first
        time, with the same ids and draws. So from here to the stage's end an interrupt waits."""
        self._interrupts.hold()
        self._begun = True
        self._calls[stage] += 1
        self._record(records)

    def _once(self, results: dict[str, Any], stage: Callable[..., Any], *given: Any) -> Any:
        """A stage's result, from ``results`` if it is there: what was done is also known to be done."""
        if stage.__name__ not in results:
            with self._interrupts:
                results[stage.__name__] = stage(*given)
        return results[stage.__name__]

    def _occasion(self, stage: str) -> Occasion:
        return Occasion(self.round_in_progress, self.config.seed, self._calls[stage])

    @contextmanager
    def _stage(self, stage: str, round: int | None = None) -> Iterator[Work]:
        number = self.round_in_progress if round is None else round
        if self.watcher is not None:
            self.watcher.stage_begins(stage, number, self._steps_done)
        started, work = time.monotonic(), Work()
        with self._interrupts:
            try:
                yield work
            finally:  # a call that was paid for is on record, whatever became of the stage
                calls = self._parts.explorer.model_calls() if self._parts is not None else []
                if calls:
                    self._record(calls)
            work.calls += len(calls)
            work.tokens += sum(call.prompt_tokens + call.completion_tokens for call in calls)
            number = self.round_in_progress if round is None else round
            seconds, server = time.monotonic() - started, self._of_the_server()
            self._record([StageCost(number, stage, seconds, work.items, work.tokens, work.calls, *server)])
            if self.watcher is not None:
                self.watcher.stage_ends(stage, number, self._steps_done, seconds, work.items)

    def _of_the_server(self) -> tuple[int, int, int, float]:
        """Restarts, missed requests, arrivals of versions, and seconds of the last, since this was asked before."""
        engine = self._parts.policy.engine if self._parts is not None else None
        if not isinstance(engine, VllmEngine):
            return 0, 0, 0, 0.0
        before, now = self._told, (engine.restarts, engine.missed, engine.swaps)
        self._told = now
        restarts, missed, swaps = (b - a for a, b in zip(before, now, strict=True))
        return restarts, missed, swaps, engine.last_swap.seconds if swaps and engine.last_swap else 0.0


def _supervised_bar(bar: Any) -> Any:
    def show(step: int, steps: int, loss: float) -> None:
        bar.total = steps
        bar.set_postfix(loss=f"{loss:.3f}", refresh=False)
        bar.update(step - bar.n)

    return show
