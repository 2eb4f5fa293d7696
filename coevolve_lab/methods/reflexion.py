"""Reflexion (Shinn et al. 2023, arXiv:2303.11366): verbal self-reflection at inference, no training.

The first trial of every evaluation task is the evaluation before training. After a failed trial a reflection is written
(``reflections``) and stands, with those before it, in front of the user's first message in the next trial. A round is
one more trial of what is still unsolved, so ``rounds`` R means at most R + 1 trials; ``changes`` makes it 3 trials.

**It is told after each trial whether the task was solved.** None of the other methods sees the outcome of an evaluation
task: this oracle is the published method's too, and belongs beside its score wherever that is shown (the evaluation's
detail has ``uses_outcomes``). Here the policy is greedy, so a task is only tried again with a new reflection.

Differs from the publication: no second model judges success, since the environment's own score is at hand; and where
the run's explorer is no LLM, the stand-in writes: it quotes failed calls and errors and understands nothing, so what it
reaches is no measure of Reflexion. The detail has a count of each kind of reflection; records name the writer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from coevolve_lab.environments.base import Environment
from coevolve_lab.errors import EnvironmentFailure, StoreError
from coevolve_lab.evaluation.benchmark import evaluate_split, summary
from coevolve_lab.methods.base import Method, finished, play_rounds
from coevolve_lab.methods.reflections import Attempt, Writer, writer_of
from coevolve_lab.methods.zero_shot import first_evaluation
from coevolve_lab.records import ExplorationContext, Task, Trajectory
from coevolve_lab.store import quoted

if TYPE_CHECKING:
    from coevolve_lab.loop import CoEvolve

KIND = "reflexion"  # of the contexts that hold reflections; folder in the run of the recorded traffic
TRIALS = 3
MEMORY = 3  # latest reflections that the policy gets, as published


def with_notes(task: Task, notes: Sequence[str]) -> Task:
    """The task with notes on earlier attempts put before the user's first message."""
    if not notes:
        return task
    listed = "\n".join(f"- {note}" for note in notes[-MEMORY:])
    first = f"You have tried this before and failed. What was noted then:\n{listed}\n\nThe request:\n{task.turns[0]}"
    return replace(task, turns=(first, *task.turns[1:]))


def notes_by_task(run: CoEvolve) -> dict[str, list[str]]:
    """All reflections on record, oldest first."""
    notes: dict[str, list[str]] = {}
    for context in run.reader.records(ExplorationContext, f"kind = {quoted(KIND)}"):
        notes.setdefault(str(context.task_id), []).append(context.summary)
    return notes


def last_trials(run: CoEvolve, before: int) -> dict[str, Trajectory]:
    """The last trajectory of every evaluation task in trials 1 to ``before - 1``, by task."""
    last: dict[str, Trajectory] = {}
    for name in (first_evaluation(run).id, *(_name(run, trial) for trial in range(2, before))):
        found = run.reader.records(Trajectory, f"purpose = 'evaluate' and starts_with(id, {quoted(f'{name}-')})")
        last |= {trajectory.task_id: trajectory for trajectory in found}
    return last


def _name(run: CoEvolve, trial: int) -> str:
    return f"{KIND}-{run.config.environment.evaluation_split}-{trial}"


def _tools(environment: Environment, task: Task) -> list[dict[str, Any]]:
    """Schemas of a task's tools; [] if it cannot be opened, which its trial then says too."""
    try:
        session = environment.open(task)
    except EnvironmentFailure:
        return []
    session.close()
    return session.tools


def _reflect(run: CoEvolve, writer: Writer, tasks: Sequence[Task], last: Mapping[str, Trajectory]) -> list[str]:
    """A recorded reflection on each task's last trial; returns the ids of the tasks that got one."""
    notes, environment = notes_by_task(run), run.parts.environment
    attempts = [Attempt(task, last[task.id], notes.get(task.id, ()), _tools(environment, task)) for task in tasks]
    with run.own_stage("reflect") as work:
        written = writer.write(attempts, run.round_in_progress)
        contexts = [
            ExplorationContext(
                id=f"{KIND}-r{run.round_in_progress}-{i}",
                kind=KIND,
                round=run.round_in_progress,
                start=attempt.task.start,
                task_id=attempt.task.id,
                summary=text,
                explorer=writer.name,
            )
            for i, (attempt, text) in enumerate(zip(attempts, written, strict=True))
            if text is not None
        ]
        calls = writer.model_calls()
        work.items, work.calls = len(contexts), len(calls)
        work.tokens = sum(call.prompt_tokens + call.completion_tokens for call in calls)
        work.records = [*contexts, *calls]
    return [str(context.task_id) for context in contexts]


def _next_trial(run: CoEvolve, writer: Writer) -> None:
    parts, config = run.parts, run.config
    environment, split, trial = parts.environment, config.environment.evaluation_split, run.round_in_progress + 1
    tasks = environment.tasks(split)
    last = last_trials(run, trial)
    if strangers := [task.id for task in tasks if task.id not in last]:
        raise StoreError(
            f"the evaluation before training has no trajectory of {len(strangers)} evaluation tasks ({strangers[0]}): "
            "begin a run of its own with these, since Reflexion goes on from what it did in it"
        )
    reflected = set(_reflect(run, writer, [task for task in tasks if last[task.id].score < 1.0], last))
    notes = notes_by_task(run)
    again = [with_notes(task, notes[task.id]) for task in tasks if task.id in reflected]
    name = _name(run, trial)
    with run.own_stage("evaluate") as work, run.bar(f"trial {trial} of {split}", len(again)) as bar:
        seconds, trajectories = 0.0, list[Trajectory]()
        if again:
            tried, trajectories = evaluate_split(
                environment,
                again,
                parts.policy,
                config,
                split=split,
                round=run.round_in_progress,
                step=parts.step,
                name=name,
                progress=bar.update,
            )
            seconds = tried.seconds
        last |= {trajectory.task_id: trajectory for trajectory in trajectories}
        evaluation = summary(
            [last[task.id] for task in tasks],
            name=name,
            split=split,
            policy_version=parts.policy.version,
            round=run.round_in_progress,
            step=parts.step,
            defects=getattr(environment, "known_defects", frozenset)(),
            seconds=seconds,
        )
        detail = {
            **evaluation.detail,
            "trial": float(trial),
            "tried_again": float(len(again)),
            "solved_again": float(sum(t.score >= 1.0 for t in trajectories)),
            f"reflections_{writer.name.partition(':')[0]}": float(sum(map(len, notes.values()))),
            "uses_outcomes": 1.0,
        }
        work.items, work.tokens = len(again), sum(len(s.token_ids) for t in trajectories for s in t.steps)
        work.records = [replace(evaluation, detail=detail), *trajectories]


def trials(run: CoEvolve) -> None:
    """Trials until ``config.rounds`` + 1 have been made; each is recorded as an evaluation of all tasks."""
    if finished(run):
        return
    run.seed_tasks()
    first_evaluation(run)
    writer = writer_of(run.config.evolution.explorer, run.run_dir / KIND)
    play_rounds(run, lambda run: _next_trial(run, writer))


REFLEXION = Method(
    "reflexion",
    "Reflexion",
    "Shinn et al. 2023, Reflexion: Language Agents with Verbal Reinforcement Learning (NeurIPS), arXiv:2303.11366",
    {"rounds": TRIALS - 1, "evolution": {"mode": "none"}},
    trials,
    own_evaluation=True,
)
