"""The ring: stages called one after the other, rounds committed.

>>> from coevolve_lab import CoEvolve
>>> run = CoEvolve("configs/bfcl-tiny.yaml", run_dir="data/runs/first")
>>> run.seed_tasks()
>>> run.round()
>>> run.sql("select kind, count(*) as n from signals group by kind")

Nothing here belongs to a stage; those are in ``stages.Stages``.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

from coevolve_lab import environments, review
from coevolve_lab.config import Config
from coevolve_lab.errors import ConfigError, ReviewPendingError, StoreError
from coevolve_lab.evaluation.benchmark import evaluate_split
from coevolve_lab.evolution import Occasion, TaskSet, unguided_contexts
from coevolve_lab.exchange.importing import MOST_ROWS, import_tasks
from coevolve_lab.policy.chat import in_syntax
from coevolve_lab.records import Evaluation, Task, Verdict
from coevolve_lab.stages import Stages

SEED_ATTEMPTS = 20  # batches of unguided exploration before D_0 is given up as too small


class CoEvolve(Stages):
    """One run, in a folder. Made with a config it starts the run or goes on with it; ``open`` needs the folder only.

    >>> run = CoEvolve("configs/bfcl-tiny.yaml", "data/runs/first")
    >>> run.rounds()                         # all of them; round() is one, start() plays them in a kernel of their own
    >>> CoEvolve.open("data/runs/first")     # anywhere else, to look: tasks(), signals(), metrics(), sql(), ...

    ``round`` calls, in this order, what can be called alone: seed_tasks once; rollout, train, find_signals (F times);
    reflect, explore; abstract, validate, append; evaluate; commit. What was not committed is lost with ``close``.

    config: a YAML file, a mapping or a Config; overrides: top-level keys that replace or extend it, e.g.
    ``CoEvolve(path, run_dir, seed=1, evolution={"mode": "uniform"})``; progress: bars. Raises ConfigError, StoreError
    (another config in that folder), RunLockedError (another process writes to it).
    """

    # ---- whole rounds

    def seed_tasks(self) -> list[Task]:
        """D_0: ``evolution.initial_tasks`` tasks found by unguided exploration and validated; commits round 0.

        Does nothing when the run has its D_0. Drafts that wait for a person count as found. Raises StoreError if
        exploration finds too few; a budget of the explorer that is used up only warns, once there are any.
        """
        parts, wanted = self._ready(), self.config.evolution.initial_tasks
        if self.reader.committed_round is not None:
            return [task for task in parts.task_set if task.origin == "seed"]
        batch = self._evolution_so_far  # an interrupted batch goes on with the stage that was interrupted
        for _ in range(SEED_ATTEMPTS):
            if not batch:
                missing = wanted - len(parts.task_set) - review.held(self.reader).height
                if missing <= 0 or parts.explorer.exhausted:
                    break
                occasion = self._occasion("reflect")
                contexts = unguided_contexts("seed", missing, parts.starts, occasion, parts.explorer.name)
                batch |= {"missing": missing, "contexts": contexts}
                self._finish("reflect", contexts)
            triplets = self._once(batch, self.explore, batch["contexts"])
            drafts = self._once(batch, self.abstract, triplets)
            verdicts = self._once(batch, self.validate, drafts, batch["missing"])
            self._once(batch, self.append, verdicts)
            batch.clear()
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
        """F (``training.steps_per_round``) training steps, one evolution, an evaluation if it is due, a commit.

        Interrupted and called again, it goes on with the stage that was interrupted. Raises ReviewPendingError while
        drafts of earlier rounds wait for a person; all that was done is committed then.
        """
        self.seed_tasks()
        if not self._reviewed:
            self.take_up_reviews()
            self._reviewed = True
        step, evolution = self._step_so_far, self._evolution_so_far
        try:
            while step or self._steps_done < self.config.training.steps_per_round:
                batch = self._once(step, self.rollout)
                if "train" not in step:
                    self._sample_ahead()
                self._once(step, self.train, batch)
                self._once(step, self.find_signals, batch)
                step.clear()
        except BaseException:
            self._lookahead.recall()  # whoever goes on may train elsewhere, or never
            raise
        contexts = self._once(evolution, self.reflect)
        triplets = self._once(evolution, self.explore, contexts)
        drafts = self._once(evolution, self.abstract, triplets)
        verdicts = self._once(evolution, self.validate, drafts)
        self._once(evolution, self.append, verdicts)
        if self.round_in_progress % self.config.evaluate_every == 0:
            self._once(evolution, self.evaluate)
        self.commit()

    def rounds(self, count: int | None = None) -> None:
        """Rounds until ``count`` (``config.rounds``) are committed, then a snapshot. Where they are, it does nothing:
        it takes no lock and loads no model."""
        count, done = self.config.rounds if count is None else count, self.reader.committed_round
        if done is not None and done >= count and not self._begun:
            return
        self.seed_tasks()
        while self.round_in_progress <= count:
            self.round()
        self.snapshot()

    def take_up_reviews(self) -> None:
        """What people decided about drafts of earlier rounds comes into force, as at the beginning of ``round``.

        Raises ReviewPendingError, with all work committed, while some wait.
        """
        if self.config.evolution.review != "auto" and (
            waiting := review.undecided(self.reader, before=self.round_in_progress)
        ):
            kept = (
                f"round {self.round_in_progress} has records that run.commit() keeps and run.close() drops"
                if self._begun
                else "all work up to here is committed"
            )
            raise ReviewPendingError(
                f"round {self.round_in_progress} begins once a person has decided about these drafts: {len(waiting)}; "
                f"task_review(run) shows them, run.decide(draft_id, 'accept') decides; {kept}"
            )
        if review.decided(self.reader, self.round_in_progress):
            self.review()

    def evaluate(self, split: str | None = None, elsewhere: Config | None = None, label: str = "") -> Evaluation:
        """The present policy on a split (``environment.evaluation_split``), greedily; between rounds it commits.

        elsewhere: the config of another environment than the run's own, with how it is played (steps, tokens, syntax of
        calls), to see what carries over (table 6). label: put before the name of the split on record, so that nobody
        takes it for one of the run's; elsewhere needs one, or raises ConfigError.
        """
        if elsewhere is not None and not label:
            raise ConfigError("an evaluation elsewhere needs a label, or its score would pass for one of the run's own")
        parts, config = self._ready(), elsewhere or self.config
        policy, world, split = parts.policy, parts.environment, split or config.environment.evaluation_split
        if elsewhere is not None:
            world = environments.make(config.environment.name, **config.environment.arguments())
            policy = replace(policy, chat=in_syntax(policy.chat, config.policy.call_syntax))
        between = not self._begun and self.reader.committed_round is not None
        round = self.round_in_progress - between
        tasks = world.tasks(split)
        split = f"{label}:{split}" if label else split
        earlier = self.reader.table("evaluations")
        count = ((earlier["split"] == split) & (earlier["policy_version"] == parts.policy.version)).sum()
        name = f"eval-{split}-v{parts.policy.version}-{count}"
        with self._stage("evaluate", round) as work, self.bar(f"evaluate {split}", len(tasks)) as bar:
            evaluation, trajectories = evaluate_split(
                world,
                tasks,
                policy,
                config,
                split=split,
                round=round,
                step=parts.step,
                name=name,
                defects=getattr(world, "known_defects", frozenset)(),
                progress=bar.update,
            )
            work.items, work.tokens = len(tasks), sum(len(s.token_ids) for t in trajectories for s in t.steps)
            self._record([evaluation, *trajectories])
        if between:
            self._write().commit(round)
        return evaluation

    def commit(self) -> None:
        """Make this round count: a kill loses at most what came after the last commit. Begins the next round."""
        parts = self._ready()
        self._write().commit(
            self.round_in_progress,
            state=parts.state(),
            checkpoint_files=parts.save,
            counters={"step": parts.step, "tasks": len(parts.task_set)},
        )
        self._fresh_round(self.round_in_progress + 1)

    def import_tasks(self, path: str | Path, most_rows: int = MOST_ROWS) -> list[Verdict]:
        """Tasks from elsewhere (``exchange.import_tasks``) as drafts, validated and held like any other; commits.

        The next round trains on those that were accepted. Raises StoreError for a file that cannot be used, before the
        run has its D_0, and while a round has records that are not committed.
        """
        parts, last = self._ready(), self.reader.committed_round
        if last is None:
            raise StoreError("tasks are imported into a run that has its D_0: call run.seed_tasks() first")
        if self._begun:
            raise StoreError(
                f"tasks are imported between rounds, and round {self.round_in_progress} has records that are not "
                "committed: finish it with run.round() or run.commit() first"
            )
        earlier = self.sql(
            f"select count(*) from stage_costs where round = {last} and stage in ('validate', 'review', 'import')"
        ).item()  # ids of the round's own validations are taken
        occasion = Occasion(last, self.config.seed, earlier)
        imported = import_tasks(path, parts.environment.name, occasion, most_rows)
        with self._stage("import", last) as work:
            verdicts, opinions = self._judged(imported.drafts, None, occasion)
            work.items = len(verdicts)
            grown = TaskSet(parts.task_set)
            added = grown.append(verdicts)
            self._record([imported.context, *imported.drafts, *verdicts, *opinions, *added])
            parts.task_set = grown
        self._write().commit(last, counters={"step": parts.step, "tasks": len(parts.task_set)})
        return verdicts
