"""The ring: stages called one after the other, what they return recorded, rounds committed.

>>> from coevolve_lab import CoEvolve
>>> run = CoEvolve("configs/bfcl-tiny.yaml", run_dir="data/runs/first")
>>> run.seed_tasks()
>>> run.round()
>>> run.sql("select kind, count(*) as n from signals group by kind")

Nothing here belongs to a stage: each method hands records to the stage's own function, stores what came back and
returns it, so that every stage can be called alone, again, or with edited input.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from coevolve_lab import review
from coevolve_lab.assembly import Parts, assemble
from coevolve_lab.errors import ReviewPendingError, StoreError
from coevolve_lab.evaluation.benchmark import evaluate_split
from coevolve_lab.evolution import UNEXECUTED, Occasion, judge_of, plan_contexts, unguided_contexts, validate_drafts
from coevolve_lab.evolution.risk import hold_rule
from coevolve_lab.policy.rollout import play, stable_seed
from coevolve_lab.records import (
    Evaluation,
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

SEED_ATTEMPTS = 20  # batches of unguided exploration before D_0 is given up as too small


@dataclass
class _Work:
    """What a stage call did, for its cost record."""

    items: int = 0
    tokens: int = 0
    calls: int = 0


class CoEvolve(Run):
    """One run, in a folder. Made with a config it starts the run or goes on with it; ``open`` needs the folder only.

    config: a YAML file, a mapping or a Config; overrides: top-level keys that replace or extend it, e.g.
    ``CoEvolve(path, run_dir, seed=1, evolution={"mode": "uniform"})``. Raises ConfigError, StoreError (another config
    in that folder), RunLockedError (another process writes to it).
    """

    _parts: Parts | None
    _reviewed: bool  # whether round() has taken up what people decided

    def _begin(self, run_dir: Path, progress: bool) -> None:
        self._parts = None
        super()._begin(run_dir, progress)
        self._fresh_round(0)

    def close(self) -> None:
        """Let others write to the run. What was not committed is lost to it."""
        super().close()
        self._parts = None

    # ---- stage 1: train, and read weakness signals off the rollouts (section 3.1)

    def rollout(self, tasks: Sequence[Task] | None = None) -> list[Trajectory]:
        """K trajectories of each task at the training temperature; by default of a fresh sample of D_t."""
        parts, config = self._ready(), self.config.rollout
        call = self._calls["rollout"]
        step, name = parts.step + 1, f"s{parts.step + 1}" + (f".{call}" if call else "")
        if tasks is None:
            seed = stable_seed(self.config.seed, "tasks", step, call)
            if not len(parts.task_set):
                raise StoreError(
                    "the task set is empty: call run.seed_tasks() first, or accept some drafts in task_review(run)"
                )
            tasks = parts.task_set.sample(config.tasks_per_step, seed, parts.visits, config.revisit_share)
        with self._stage("rollout") as work, self._bar("rollout", len(tasks) * config.group_size) as bar:
            batch = play(
                parts.environment,
                tasks,
                parts.policy.engine,
                parts.policy.chat,
                config,
                group_size=config.group_size,
                temperature=config.temperature,
                max_steps=self.config.environment.max_steps,
                seed=stable_seed(self.config.seed, "rollout", step, call),
                label=name,
                round=self.round_in_progress,
                step=step,
                progress=bar.update,
            )
            work.items, work.tokens = len(batch), sum(len(s.token_ids) for t in batch for s in t.steps)
            self._finish("rollout", batch)
        for task in tasks:
            parts.visits[task.id] = parts.visits.get(task.id, 0) + 1
            self._round_tasks[task.id] = task
        self._round_trajectories += batch
        return batch

    def train(self, batch: Sequence[Trajectory]) -> Update:
        """One GRPO step on a batch (equation 1). Interrupted, it leaves the policy as it was."""
        parts = self._ready()
        with self._stage("train") as work:
            update = parts.trainer.step(
                batch, step=parts.step + 1, round=self.round_in_progress, policy_version=parts.policy.version + 1
            )
            parts.policy.advance()
            parts.step += 1
            work.items, work.tokens = update.trajectories, update.trained_tokens
            self._finish("train", [update])
        self._calls.pop("rollout", None)
        self._steps_done += 1
        return update

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
        parts = self._ready()
        occasion, mode = self._occasion("validate"), self.config.evolution.judge
        opinions: list[Judgement] = []

        def judge(judged: Sequence[TaskDraft]) -> list[Judgement]:
            opinions.extend(judge_of(parts.explorer).judge(judged, occasion))
            return opinions

        with self._stage("validate") as work:
            verdicts = validate_drafts(
                drafts,
                parts.environment,
                parts.guard,
                [*parts.task_set, *review.held_tasks(self.reader)],
                occasion,
                execute=self.config.evolution.validate_drafts,
                limit=self.config.evolution.tasks_per_round if limit is None else limit,
                judge=judge if mode == "gate" else None,
                hold=hold_rule(self.config.evolution.review, parts.environment),
            )
            if mode == "compare":
                executed = {verdict.draft_id for verdict in verdicts if verdict.reason not in UNEXECUTED}
                judge([draft for draft in drafts if draft.id in executed])
            work.items = len(verdicts)
            self._finish("validate", [*verdicts, *opinions])
        return verdicts

    def append(self, verdicts: Sequence[Verdict]) -> list[Task]:
        """Accepted tasks enter D_t; returns those that are new."""
        added = self._ready().task_set.append(verdicts)
        self._finish("append", added)
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
            verdicts = validate_drafts(edits, parts.environment, parts.guard, known, self._occasion("validate"))
            work.items = len(reviews)
            added = parts.task_set.append([*accepted, *verdicts])
            self._calls["validate"] += bool(edits)
            self._finish("review", [*edits, *verdicts, *reviews, *added])
        return added

    # ---- whole rounds

    def seed_tasks(self) -> list[Task]:
        """D_0: ``evolution.initial_tasks`` tasks found by unguided exploration and validated; commits round 0.

        Does nothing when the run has its D_0. Drafts that wait for a person count as found. Raises StoreError if
        exploration finds too few; a budget of the explorer that is used up only warns, once there are any.
        """
        parts, wanted = self._ready(), self.config.evolution.initial_tasks
        if self.reader.committed_round is not None:
            return [task for task in parts.task_set if task.origin == "seed"]
        for _ in range(SEED_ATTEMPTS):
            missing = wanted - len(parts.task_set) - review.held(self.reader).height
            if missing <= 0 or parts.explorer.exhausted:
                break
            contexts = unguided_contexts("seed", missing, parts.starts, self._occasion("reflect"), parts.explorer.name)
            self._finish("reflect", contexts)
            self.append(self.validate(self.abstract(self.explore(contexts)), limit=missing))
        found = len(parts.task_set) + review.held(self.reader).height
        spent = parts.explorer.exhausted
        if found and found < wanted and spent:
            warnings.warn(f"D_0 has {found} of {wanted} tasks: the explorer's {spent} is used up", stacklevel=2)
        elif found < wanted:
            raise StoreError(
                f"unguided exploration found {found} of {wanted} tasks in {SEED_ATTEMPTS} batches: lower "
                "evolution.initial_tasks, or look at run.verdicts() for why drafts were refused"
            )
        self.commit()
        return list(parts.task_set)

    def round(self) -> None:
        """F training steps, one evolution, an evaluation if it is due, a commit.

        Interrupted and called again, it goes on with the stage that was interrupted. Raises ReviewPendingError while
        drafts of earlier rounds wait for a person; all that was done is committed then.
        """
        self.seed_tasks()
        if not self._reviewed:
            self._take_up_reviews()
            self._reviewed = True
        step, evolution = self._step_so_far, self._evolution_so_far
        while step or self._steps_done < self.config.training.steps_per_round:
            batch = _once(step, self.rollout)
            _once(step, self.train, batch)
            _once(step, self.find_signals, batch)
            step.clear()
        contexts = _once(evolution, self.reflect)
        triplets = _once(evolution, self.explore, contexts)
        drafts = _once(evolution, self.abstract, triplets)
        verdicts = _once(evolution, self.validate, drafts)
        _once(evolution, self.append, verdicts)
        if self.round_in_progress % self.config.evaluate_every == 0:
            _once(evolution, self.evaluate)
        self.commit()

    def rounds(self, count: int | None = None) -> None:
        """Rounds until ``count`` (``config.rounds``) are committed, then a snapshot."""
        self.seed_tasks()
        while self.round_in_progress <= (self.config.rounds if count is None else count):
            self.round()
        self.snapshot()

    def _take_up_reviews(self) -> None:
        if self.config.evolution.review != "auto" and (waiting := review.undecided(self.reader)):
            raise ReviewPendingError(
                f"round {self.round_in_progress} begins once a person has decided about these drafts: {len(waiting)}; "
                "task_review(run) shows them, run.decide(draft_id, 'accept') decides; all work up to here is committed"
            )
        if review.decided(self.reader, self.round_in_progress):
            self.review()

    def evaluate(self, split: str | None = None) -> Evaluation:
        """The present policy on a split (``environment.evaluation_split``), greedily; between rounds it commits."""
        parts, split = self._ready(), split or self.config.environment.evaluation_split
        between = not self._begun and self.reader.committed_round is not None
        round = self.round_in_progress - between
        tasks = parts.environment.tasks(split)
        earlier = self.reader.table("evaluations")
        count = ((earlier["split"] == split) & (earlier["policy_version"] == parts.policy.version)).sum()
        name = f"eval-{split}-v{parts.policy.version}-{count}"
        with self._stage("evaluate", round) as work, self._bar(f"evaluate {split}", len(tasks)) as bar:
            evaluation, trajectories = evaluate_split(
                parts.environment,
                tasks,
                parts.policy,
                self.config,
                split=split,
                round=round,
                step=parts.step,
                name=name,
                defects=getattr(parts.environment, "known_defects", frozenset)(),
                progress=bar.update,
            )
            work.items, work.tokens = len(tasks), sum(len(s.token_ids) for t in trajectories for s in t.steps)
            self._record([evaluation, *trajectories])
        if between:
            self._write().commit(round)
        return evaluation

    def commit(self) -> None:
        """Make this round count (design rule 7) and begin the next."""
        parts = self._ready()
        self._write().commit(
            self.round_in_progress,
            state=parts.state(),
            checkpoint_files=parts.save,
            counters={"step": parts.step, "tasks": len(parts.task_set)},
        )
        self._fresh_round(self.round_in_progress + 1)

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

    def _ready(self) -> Parts:
        """The parts, assembled on first use: a run that is only looked at loads no model."""
        if self._parts is None:
            committed = self._write().committed_round
            self._fresh_round(0 if committed is None else committed + 1)
            with self._stage("assemble"), self._bar("warm start", 0) as bar:
                self._parts = assemble(self.config, self.reader, _supervised_bar(bar))
        return self._parts

    def _fresh_round(self, number: int) -> None:
        self.round_in_progress = number
        self._steps_done = 0
        self._calls: Counter[Any] = Counter()
        self._round_signals: list[Signal] = []
        self._begun = False  # whether this round has records
        self._reviewed = False
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
        names = ", ".join("'" + name.replace("'", "''") + "'" for name in missing)
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
            names = ", ".join(f"'{name}'" for name in missing)
            found = self.reader.records(ExplorationContext, f"id in ({names})")
            self._contexts.update({context.id: context for context in found})
        return [self._contexts[name] for name in wanted]

    @contextmanager
    def _stage(self, stage: str, round: int | None = None) -> Iterator[_Work]:
        number = self.round_in_progress if round is None else round
        if self.watcher is not None:
            self.watcher.stage_begins(stage, number, self._steps_done)
        started, work = time.monotonic(), _Work()
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
        self._record([StageCost(number, stage, seconds, work.items, work.tokens, work.calls)])
        if self.watcher is not None:
            self.watcher.stage_ends(stage, number, self._steps_done, seconds, work.items)

    def _bar(self, what: str, total: int) -> Any:
        label = f"round {self.round_in_progress} step {self._steps_done + 1} {what}" if what == "rollout" else what
        if self.watcher is not None:
            return self.watcher.bar(label, total)
        return tqdm(total=total, desc=label, leave=False, disable=not self._progress)


def _once(results: dict[str, Any], stage: Callable[..., Any], *given: Any) -> Any:
    """A stage's result, from ``results`` if it is there."""
    if stage.__name__ not in results:
        results[stage.__name__] = stage(*given)
    return results[stage.__name__]


def _supervised_bar(bar: Any) -> Any:
    def show(step: int, steps: int, loss: float) -> None:
        bar.total = steps
        bar.set_postfix(loss=f"{loss:.3f}", refresh=False)
        bar.update(step - bar.n)

    return show
