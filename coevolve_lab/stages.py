"""The stages of a run, called one at a time: each hands records to the stage's own function, stores what came back and
returns it, so that every stage can be called alone, again, or with edited input.

What is done in which order is ``loop.CoEvolve``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from coevolve_lab import review
from coevolve_lab.errors import StoreError
from coevolve_lab.evolution import UNEXECUTED, Occasion, TaskSet, judge_of, plan_contexts, validate_drafts
from coevolve_lab.evolution.risk import hold_rule
from coevolve_lab.policy.ahead import Draw, Lookahead
from coevolve_lab.policy.rollout import stable_seed
from coevolve_lab.policy.vllm_engine import VllmEngine
from coevolve_lab.recording import Recording
from coevolve_lab.records import (
    ExplorationContext,
    Judgement,
    Signal,
    Task,
    TaskDraft,
    Trajectory,
    Triplet,
    Update,
    Verdict,
)
from coevolve_lab.signals import find_signals
from coevolve_lab.store import quoted


class Stages(Recording):
    """See ``CoEvolve``, whose instances these are."""

    def _begin(self, run_dir: Path, progress: bool) -> None:
        self._lookahead = Lookahead()
        super()._begin(run_dir, progress)

    def close(self) -> None:
        """Let others write to the run. What was not committed is lost to it."""
        self._lookahead.recall()
        super().close()

    # ---- stage 1: train, and read weakness signals off the rollouts (section 3.1)

    def rollout(self, tasks: Sequence[Task] | None = None) -> list[Trajectory]:
        """K (``rollout.group_size``) trajectories of each task at the training temperature; tasks: by default a fresh
        sample of D_t (``rollout.tasks_per_step``)."""
        parts = self._ready()
        draw = self._draw(parts.step + 1, self._calls["rollout"], tasks)
        episodes = len(draw.tasks) * self.config.rollout.group_size
        with self._stage("rollout") as work, self.bar("rollout", episodes) as bar:
            batch = self._lookahead.take(draw, bar.update)
            if batch is None:
                bar.update(-bar.n)
                batch = draw.play(parts.environment, parts.policy.chat, self.config, parts.policy.engine, bar.update)
            work.items, work.tokens = len(batch), sum(len(s.token_ids) for t in batch for s in t.steps)
            self._finish("rollout", batch)
            for task in draw.tasks:
                parts.visits[task.id] = parts.visits.get(task.id, 0) + 1
                self._round_tasks[task.id] = task
            self._round_trajectories += batch
        return batch

    def train(self, batch: Sequence[Trajectory]) -> Update:
        """One GRPO step on a batch (equation 1). Interrupted, it leaves the policy as it was, or is done whole."""
        return self._train(self._ready().trainer.step, batch)

    def imitate(self, batch: Sequence[Trajectory], above: float = 0.0) -> Update:
        """One step of log-likelihood on those trajectories of a batch that score more than ``above`` (methods/rest.py).

        It counts as a training step, and is recorded as one. Interrupted, it leaves the policy as it was, or is done
        whole.
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
        """R rollouts of S steps for each context (``evolution.rollouts_per_context``, ``steps_per_rollout``), in real
        sessions."""
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
        self._lookahead.recall()
        parts, config = self._ready(), self.config
        if not config.rollout.max_staleness or self._steps_done + 1 >= config.training.steps_per_round:
            return
        engine = parts.policy.engine
        assert isinstance(engine, VllmEngine)  # the config refuses any other
        with self._stage("rollout"):
            self._lookahead.begin(self._draw(parts.step + 2, 0), engine, parts.environment, parts.policy.chat, config)

    def _train(self, learn: Callable[..., Update], batch: Sequence[Trajectory]) -> Update:
        parts = self._ready()
        with self._stage("train") as work:
            update = learn(
                batch,
                step=parts.step + 1,
                round=self.round_in_progress,
                policy_version=parts.policy.version + 1,
                before_change=self._interrupts.hold,  # a changed policy and its new version are one thing
            )
            self._interrupts.hold()  # where nothing was changed, nobody has called it
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
            opinions.extend(judge_of(parts.explorer).judge(judged, occasion, self.config.environment.max_steps))
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
