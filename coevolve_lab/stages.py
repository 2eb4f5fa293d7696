"""The stages of a run, called one at a time: each hands records to the stage's own function, stores what came back and
returns it, so that every stage can be called alone, again, or with edited input.

What is done in which order is ``loop.CoEvolve``.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from coevolve_lab import review
from coevolve_lab.assembly import Parts, assemble
from coevolve_lab.errors import StoreError
from coevolve_lab.evolution import UNEXECUTED, Occasion, TaskSet, judge_of, plan_contexts, validate_drafts
from coevolve_lab.evolution.risk import hold_rule
from coevolve_lab.policy.ahead import Ahead, Draw
from coevolve_lab.policy.rollout import stable_seed
from coevolve_lab.policy.vllm_engine import VllmEngine
from coevolve_lab.records import (
    ExplorationContext,
    Judgement,
    Signal,
    StageCost,
    Task,
    TaskDraft,
    Trajectory,
    Triplet,
    Update,
    Verdict,
)
from coevolve_lab.run import Run
from coevolve_lab.signals import find_signals
from coevolve_lab.store import quoted


@dataclass
class Work:
    """What a stage call did, for its cost record. records: of a stage of one's own (``Stages.own_stage``)."""

    items: int = 0
    tokens: int = 0
    calls: int = 0
    records: list[Any] = field(default_factory=list)


class Stages(Run):
    """See ``CoEvolve``, whose instances these are. Holds what the round in progress has so far."""

    _parts: Parts | None

    def _begin(self, run_dir: Path, progress: bool) -> None:
        self._parts = None
        self._ahead: tuple[Draw, Ahead] | None = None  # what is sampled already for the next step
        self._told: tuple[int, int, int] = (0, 0, 0)  # what the cost records know of the server
        super()._begin(run_dir, progress)
        self._fresh_round(0)

    def close(self) -> None:
        """Let others write to the run. What was not committed is lost to it."""
        self._recall()
        super().close()
        parts, self._parts = self._parts, None
        if parts is not None:
            parts.close()

    # ---- stage 1: train, and read weakness signals off the rollouts (section 3.1)

    def rollout(self, tasks: Sequence[Task] | None = None) -> list[Trajectory]:
        """K trajectories of each task at the training temperature; by default of a fresh sample of D_t."""
        parts = self._ready()
        draw = self._draw(parts.step + 1, self._calls["rollout"], tasks)
        episodes = len(draw.tasks) * self.config.rollout.group_size
        with self._stage("rollout") as work, self._bar("rollout", episodes) as bar:
            batch = self._sampled_ahead(draw, bar)
            if batch is None:
                batch = draw.play(parts.environment, parts.policy.chat, self.config, parts.policy.engine, bar.update)
            work.items, work.tokens = len(batch), sum(len(s.token_ids) for t in batch for s in t.steps)
            self._finish("rollout", batch)
        for task in draw.tasks:
            parts.visits[task.id] = parts.visits.get(task.id, 0) + 1
            self._round_tasks[task.id] = task
        self._round_trajectories += batch
        return batch

    def train(self, batch: Sequence[Trajectory]) -> Update:
        """One GRPO step on a batch (equation 1). Interrupted, it leaves the policy as it was."""
        return self._train(self._ready().trainer.step, batch)

    def imitate(self, batch: Sequence[Trajectory], above: float = 0.0) -> Update:
        """One step of log-likelihood on those trajectories of a batch that score more than ``above`` (methods/rest.py).

        It counts as a training step, and is recorded as one. Interrupted, it leaves the policy as it was.
        """
        return self._train(partial(self._ready().trainer.imitate, above=above), batch)

    def find_signals(self, batch: Sequence[Trajectory]) -> list[Signal]:
        """Weakness signals of a batch; the detectors' history grows by it."""
        with self._stage("signals") as work:
            signals = find_signals(self._ready().detectors, batch)
            work.items = len(signals)
            fresh = self._unrecorded(signals)  # a batch may be read again
            self._finish("signals", fresh)
        self._round_signals += fresh
        return signals

    # ---- stage 2: reflect, and explore the real environment (section 3.2)

    def reflect(self, signals: Sequence[Signal] | None = None) -> list[ExplorationContext]:
        """Where to explore: contexts from signals (by default all of this round), or as ``evolution.mode`` says."""
        parts = self._ready()
        signals = self._round_signals if signals is None else signals
        with self._stage("reflect") as work:
            contexts = plan_contexts(
                parts.explorer,
                self.config.evolution,
                parts.starts,
                self._occasion("reflect"),
                signals,
                self._trajectories_behind(signals),
                list({**self._round_tasks, **{task.id: task for task in parts.task_set}}.values()),
            )
            work.items = len(contexts)
            self._finish("reflect", contexts)
        return contexts

    def explore(self, contexts: Sequence[ExplorationContext]) -> list[Triplet]:
        """R rollouts of S steps for each context, in real sessions."""
        with self._stage("explore") as work:
            triplets = self._ready().explorer.explore(contexts, self._occasion("explore"))
            work.items = len(triplets)
            self._finish("explore", triplets)
        self._contexts.update({context.id: context for context in contexts})
        return triplets

    # ---- stage 3: abstract new tasks, and validate them by execution (section 3.3)

    def abstract(self, triplets: Sequence[Triplet]) -> list[TaskDraft]:
        """Task drafts from what was explored in this round."""
        with self._stage("abstract") as work:
            contexts = self._contexts_of(triplets)
            drafts = self._ready().explorer.abstract(triplets, contexts, self._occasion("abstract"))
            work.items = len(drafts)
            self._finish("abstract", drafts)
        return drafts

    def validate(self, drafts: Sequence[TaskDraft], limit: int | None = None) -> list[Verdict]:
        """A verdict for each draft; at most ``limit`` (``evolution.tasks_per_round``) pass, of which those that
        ``evolution.review`` marks are held for a person. ``evolution.judge`` asks an LLM too, or lets it decide."""
        self._ready()
        most = self.config.evolution.tasks_per_round if limit is None else limit
        with self._stage("validate") as work:
            verdicts, opinions = self._judged(drafts, most, self._occasion("validate"))
            work.items = len(verdicts)
            self._finish("validate", [*verdicts, *opinions])
        return verdicts

    def append(self, verdicts: Sequence[Verdict]) -> list[Task]:
        """Accepted tasks enter D_t; returns those that are new."""
        parts = self._ready()
        grown = TaskSet(parts.task_set)  # D_t grows once its tasks are taken for the record, or not at all
        added = grown.append(verdicts)
        self._finish("append", added)
        parts.task_set = grown
        return added

    def review(self) -> list[Task]:
        """What people decided about held drafts comes into force (``decide``); returns the tasks that enter D_t.

        An edited draft is validated again first, and enters only if it passes.
        """
        parts = self._ready()
        with self._stage("review") as work:
            reviews = review.decided(self.reader, self.round_in_progress)
            accepted, edits = review.admitted(self.reader, reviews)
            known = [*parts.task_set, *(verdict.task for verdict in accepted if verdict.task)]
            verdicts = validate_drafts(
                edits,
                parts.environment,
                parts.guard,
                known,
                self._occasion("validate"),
                seconds=self.config.evolution.draft_seconds,
            )
            work.items = len(reviews)
            grown = TaskSet(parts.task_set)
            added = grown.append([*accepted, *verdicts])
            self._finish("review", [*edits, *verdicts, *reviews, *added])
            parts.task_set = grown
            self._calls["validate"] += bool(edits)
            self._write().flush()  # from now on every reader sees that these drafts no longer wait
        return added

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

    @property
    def parts(self) -> Parts:
        """What the run works with: environment, policy, trainer, explorer, D_t."""
        return self._ready()

    # ---- what the run works with right now

    @property
    def task_set(self) -> list[Task]:
        """D_t as records."""
        return list(self._ready().task_set)

    @property
    def step(self) -> int:
        """Training steps done so far."""
        return self._ready().step

    # ---- plumbing

    def _draw(self, step: int, call: int, tasks: Sequence[Task] | None = None) -> Draw:
        """call: how many batches were rolled out for this step before; tasks: by default a sample of D_t."""
        parts, config = self._ready(), self.config.rollout
        if tasks is None:
            if not len(parts.task_set):
                raise StoreError(
                    "the task set is empty: call run.seed_tasks() first, or accept some drafts in task_review(run)"
                )
            seed = stable_seed(self.config.seed, "tasks", step, call)
            tasks = parts.task_set.sample(config.tasks_per_step, seed, parts.visits, config.revisit_share)
        label = f"s{step}" + (f".{call}" if call else "")
        seed = stable_seed(self.config.seed, "rollout", step, call)
        return Draw(tuple(tasks), label, seed, self.round_in_progress, step)

    def _sample_ahead(self) -> None:
        """With ``rollout.max_staleness``, begin the next step's rollouts with the present version; the last step of a
        round is followed by none, so that evolution, evaluation and commit find nothing in flight.

        What the main thread does for it, having the version arrive, costs the rollout stage its seconds.
        """
        self._recall()
        parts, config = self._ready(), self.config
        if not config.rollout.max_staleness or self._steps_done + 1 >= config.training.steps_per_round:
            return
        engine = parts.policy.engine
        assert isinstance(engine, VllmEngine)  # the config refuses any other
        with self._stage("rollout"):
            draw = self._draw(parts.step + 2, 0)
            self._ahead = draw, Ahead(engine.pin(), partial(draw.play, parts.environment, parts.policy.chat, config))
            self._ahead[1].begin()

    def _sampled_ahead(self, draw: Draw, bar: Any) -> list[Trajectory] | None:
        """The batch of this very draw if it was begun ahead and nothing spoiled it."""
        if self._ahead is None or self._ahead[0] != draw:
            self._recall()
            return None
        _, ahead = self._ahead
        batch = ahead.take(bar.update)
        self._ahead = None
        if not ahead.spoiled:
            return batch
        warnings.warn(f"step {draw.step} was sampled ahead in vain and is sampled again: {ahead.spoiled}", stacklevel=3)
        bar.update(-bar.n)
        return None

    def _recall(self) -> None:
        """Nothing is sampled ahead any more."""
        if self._ahead is not None:
            self._ahead[1].recall()
            self._ahead = None

    def _of_the_server(self) -> tuple[int, int, int, float]:
        """Restarts, missed requests, arrivals of versions, and seconds of the last, since this was asked before."""
        engine = self._parts.policy.engine if self._parts is not None else None
        if not isinstance(engine, VllmEngine):
            return 0, 0, 0, 0.0
        before, now = self._told, (engine.restarts, engine.missed, engine.swaps)
        self._told = now
        restarts, missed, swaps = (b - a for a, b in zip(before, now, strict=True))
        return restarts, missed, swaps, engine.last_swap.seconds if swaps and engine.last_swap else 0.0

    def _train(self, learn: Callable[..., Update], batch: Sequence[Trajectory]) -> Update:
        parts = self._ready()
        with self._stage("train") as work:
            update = learn(
                batch, step=parts.step + 1, round=self.round_in_progress, policy_version=parts.policy.version + 1
            )
            parts.policy.advance()
            parts.step += 1
            work.items, work.tokens = update.trajectories, update.trained_tokens
            self._finish("train", [update])
        self._calls.pop("rollout", None)
        self._steps_done += 1
        return update

    def _judged(
        self, drafts: Sequence[TaskDraft], limit: int | None, occasion: Occasion
    ) -> tuple[list[Verdict], list[Judgement]]:
        """What validation says of drafts, and what the LLM judge says if there is one."""
        parts, mode = self._ready(), self.config.evolution.judge
        opinions: list[Judgement] = []

        def judge(judged: Sequence[TaskDraft]) -> list[Judgement]:
            opinions.extend(judge_of(parts.explorer).judge(judged, occasion))
            return opinions

        again = {draft.id for draft in drafts}  # a draft that is validated again is no duplicate of itself
        waiting = [task for task in review.held_tasks(self.reader) if task.draft_id not in again]
        verdicts = validate_drafts(
            drafts,
            parts.environment,
            parts.guard,
            [*parts.task_set, *waiting],
            occasion,
            execute=self.config.evolution.validate_drafts,
            limit=limit,
            seconds=self.config.evolution.draft_seconds,
            judge=judge if mode == "gate" else None,
            hold=hold_rule(self.config.evolution.review, parts.environment),
        )
        if mode == "compare":
            executed = {verdict.draft_id for verdict in verdicts if verdict.reason not in UNEXECUTED}
            judge([draft for draft in drafts if draft.id in executed])
        return verdicts, opinions

    def _ready(self) -> Parts:
        """The parts, assembled on first use: a run that is only looked at loads no model."""
        if self._parts is None:
            committed = self._write().committed_round
            self._fresh_round(0 if committed is None else committed + 1)
            with self._stage("assemble"), self._bar("warm start", 0) as bar:
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
        time, with the same ids and draws."""
        self._begun = True
        self._calls[stage] += 1
        self._record(records)

    def _occasion(self, stage: str) -> Occasion:
        return Occasion(self.round_in_progress, self.config.seed, self._calls[stage])

    def _trajectories_behind(self, signals: Sequence[Signal]) -> list[Trajectory]:
        """This round's trajectories, and the groups of signals that came from elsewhere."""
        known = {trajectory.group_id for trajectory in self._round_trajectories}
        if not (missing := dict.fromkeys(s.group_id for s in signals if s.group_id not in known)):
            return self._round_trajectories
        names = ", ".join(map(quoted, missing))
        return self._round_trajectories + self.reader.records(Trajectory, f"group_id in ({names})")

    def _unrecorded(self, signals: Sequence[Signal]) -> list[Signal]:
        earlier = {signal.id for signal in self._round_signals}
        steps = {signal.step for signal in signals if signal.round != self.round_in_progress}
        if steps:  # of a batch of an earlier round
            earlier |= set(self.sql(f"select id from signals where step in ({', '.join(map(str, steps))})")["id"])
        return [signal for signal in signals if signal.id not in earlier]

    def _contexts_of(self, triplets: Sequence[Triplet]) -> list[ExplorationContext]:
        wanted = dict.fromkeys(triplet.context_id for triplet in triplets)
        if missing := [name for name in wanted if name not in self._contexts]:
            names = ", ".join(map(quoted, missing))
            found = self.reader.records(ExplorationContext, f"id in ({names})")
            self._contexts.update({context.id: context for context in found})
        return [self._contexts[name] for name in wanted]

    @contextmanager
    def _stage(self, stage: str, round: int | None = None) -> Iterator[Work]:
        number = self.round_in_progress if round is None else round
        if self.watcher is not None:
            self.watcher.stage_begins(stage, number, self._steps_done)
        started, work = time.monotonic(), Work()
        try:
            yield work
        finally:  # a call that was paid for is on record, whatever became of the stage
            calls = self._parts.explorer.model_calls() if self._parts is not None else []
            if calls:
                self._record(calls)
        work.calls += len(calls)
        work.tokens += sum(call.prompt_tokens + call.completion_tokens for call in calls)
        number = self.round_in_progress if round is None else round
        seconds = time.monotonic() - started
        self._record([StageCost(number, stage, seconds, work.items, work.tokens, work.calls, *self._of_the_server())])
        if self.watcher is not None:
            self.watcher.stage_ends(stage, number, self._steps_done, seconds, work.items)

    def _bar(self, what: str, total: int) -> Any:
        label = f"round {self.round_in_progress} step {self._steps_done + 1} {what}" if what == "rollout" else what
        if self.watcher is not None:
            return self.watcher.bar(label, total)
        return tqdm(total=total, desc=label, leave=False, disable=not self._progress)


def _supervised_bar(bar: Any) -> Any:
    def show(step: int, steps: int, loss: float) -> None:
        bar.total = steps
        bar.set_postfix(loss=f"{loss:.3f}", refresh=False)
        bar.update(step - bar.n)

    return show
