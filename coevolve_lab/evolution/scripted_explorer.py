"""An honest stand-in for the exploration LLM: it walks the environment's typed API and speaks in templates.

It needs a ``ScriptedWorld`` and no model. Like the LLM it is steered by the exploration contexts and has a taste of its
own (``skew``); unlike the LLM it understands nothing. Everything it makes is marked explorer="scripted".
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from coevolve_lab.config import EvolutionConfig
from coevolve_lab.environments.base import Environment, ScriptedWorld, Session
from coevolve_lab.errors import ExplorerError
from coevolve_lab.evolution.calls import canonical_call, solution_key
from coevolve_lab.evolution.contexts import Evidence, Start, StartPool, preferences
from coevolve_lab.evolution.explorer import Occasion, register_explorer
from coevolve_lab.evolution.reflection import reflect_on
from coevolve_lab.evolution.start_states import ORIGINS, open_start, replayed
from coevolve_lab.records import ExplorationContext, ModelCall, Signal, Task, TaskDraft, Trajectory, Triplet

FOCUS_SHARE = 0.7  # of the steps of a focused rollout play the focus pattern; the others are company for it
BIND_TRIES = 8  # draws for one step before a rollout ends early
FLAT_KINDS = ("uniform", "coverage")  # in these, company too is drawn evenly instead of by taste


class ScriptedExplorer:
    """Explorer without a model. Raises ExplorerError if the environment offers no ``ScriptedWorld``."""

    name = "scripted"
    exhausted = ""  # it costs nothing

    def __init__(self, environment: Environment, config: EvolutionConfig, folder: Path | None = None) -> None:
        """folder is not used: nothing is asked of a model, so there is nothing to keep."""
        if not isinstance(environment, ScriptedWorld):
            raise ExplorerError(
                f"environment '{environment.name}' has no ScriptedWorld (start, tool_names, bind, phrase), so the "
                "scripted explorer cannot walk it; implement that protocol or use an LLM explorer"
            )
        self._environment = environment
        self._world: ScriptedWorld = environment
        self._config = config
        self._pool = StartPool(environment)

    def reflect(
        self, signals: Sequence[Signal], trajectories: Sequence[Trajectory], tasks: Sequence[Task], occasion: Occasion
    ) -> list[ExplorationContext]:
        """One context per signal, in order. Every second one starts afresh with the same tools, the others where the
        task starts. Raises ExplorerError if a signal's trajectory or task is not among those given."""
        evidence = Evidence(trajectories, tasks)
        contexts = []
        for i, signal in enumerate(signals):
            trajectory, task = evidence.trajectories.get(signal.trajectory_id), evidence.tasks.get(signal.task_id)
            if trajectory is None or task is None:
                missing = f"trajectory {signal.trajectory_id}" if trajectory is None else f"task {signal.task_id}"
                raise ExplorerError(f"signal {signal.id} cannot be reflected on without {missing}; pass it too")
            start: Start = task.start
            if i % 2:
                start = self._pool.sample(occasion.rng("start", i), self._world.tool_names(task.start))
            name = occasion.ident("ctx", i)
            contexts.append(reflect_on(signal, evidence, trajectory, task, start, name, occasion.round))
        return contexts

    def explore(self, contexts: Sequence[ExplorationContext], occasion: Occasion) -> list[Triplet]:
        """``rollouts_per_context`` x ``steps_per_rollout`` triplets per context; fewer where nothing can be called.

        A rollout that the environment breaks keeps its steps; the last one then holds the error, marked as failed.
        """
        taste = preferences(self._pool.tools, self._config.skew, occasion.seed)
        triplets: list[Triplet] = []
        numbers = itertools.count()
        for context in contexts:
            for _ in range(self._config.rollouts_per_context):
                number = next(numbers)
                rollout = occasion.ident("explore", number)
                triplets += self._rollout(context, rollout, taste, occasion.rng("explore", number), occasion.round)
        return triplets

    def abstract(
        self, triplets: Sequence[Triplet], contexts: Sequence[ExplorationContext], occasion: Occasion
    ) -> list[TaskDraft]:
        """Drafts from windows of successful calls, re-executed from the start; see ``_windows`` and ``replayed``."""
        known = {context.id: context for context in contexts}
        rollouts: dict[str, list[Triplet]] = {}
        for triplet in triplets:
            if triplet.context_id in known:
                rollouts.setdefault(triplet.rollout_id, []).append(triplet)
        drafts: dict[str, TaskDraft] = {}
        for rollout_id, steps in rollouts.items():
            context = known[steps[0].context_id]
            rng = occasion.rng("abstract", rollout_id)
            for window in self._windows(_useful(steps), context.focus_pattern, rng):
                calls = replayed(self._environment, context.start, window)
                if len(calls) < self._config.min_calls:
                    continue
                solution = self._cut(calls, rng)
                # similar behaviour is merged: the same calls from the same start are one task
                key = solution_key(context.start, solution)
                if key not in drafts:
                    drafts[key] = TaskDraft(
                        id=occasion.ident("draft", len(drafts)),
                        context_id=context.id,
                        rollout_id=rollout_id,
                        environment=self._environment.name,
                        turns=tuple(" then ".join(self._world.phrase(c, rng) for c in turn) for turn in solution),
                        start=context.start,
                        solution=solution,
                        round=occasion.round,
                        origin=ORIGINS.get(context.kind, "feedback"),
                        explorer=self.name,
                    )
        return list(drafts.values())

    def model_calls(self) -> list[ModelCall]:
        """[]: a script asks no model."""
        return []

    def _rollout(
        self, context: ExplorationContext, rollout: str, taste: Mapping[str, float], rng: random.Random, round: int
    ) -> list[Triplet]:
        triplets: list[Triplet] = []

        def record(action: str, observation: str, failed: bool, tools: tuple[str, ...]) -> None:
            index = len(triplets)
            name = f"{rollout}-{index}"
            triplets.append(Triplet(name, context.id, rollout, index, action, observation, failed, round, tools))

        try:
            session = open_start(self._environment, context.start)
        except Exception as error:  # one rollout must not sink the others, whatever a benchmark's own code raises
            record("", f"{type(error).__name__}: {error}"[:500], True, ())
            return triplets
        try:
            tools = list(self._world.tool_names(context.start))
            weights = [1.0 if context.kind in FLAT_KINDS else taste.get(tool, min(taste.values())) for tool in tools]
            focus = itertools.cycle([tool for tool in context.focus_pattern if tool in tools] or [""])
            avoid = {canonical_call(action) for action in context.do_not_repeat}
            for _ in range(self._config.steps_per_rollout):
                call = self._next_call(session, next(focus), tools, weights, avoid, rng)
                if call is None:
                    break
                observation, done = session.step(call)
                record(call, observation, session.last_failed, session.last_tools)
                if done:
                    break
        except Exception as error:
            record("", f"{type(error).__name__}: {error}"[:500], True, ())
        finally:
            session.close()
        return triplets

    def _next_call(
        self, session: Session, focus: str, tools: list[str], weights: list[float], avoid: set[str], rng: random.Random
    ) -> str | None:
        for attempt in range(BIND_TRIES):
            focused = focus and attempt < BIND_TRIES // 2 and rng.random() < FOCUS_SHARE
            tool = focus if focused else rng.choices(tools, weights)[0]
            call = self._world.bind(session, tool, rng)
            if call is not None and canonical_call(call) not in avoid:
                return call
        return None

    def _windows(self, steps: list[Triplet], focus: Sequence[str], rng: random.Random) -> list[list[str]]:
        """Disjoint runs of ``min_calls`` to ``max_calls`` consecutive calls; with a focus, only runs that touch it."""
        windows: list[list[str]] = []
        first = 0
        while first < len(steps):
            length = rng.randint(self._config.min_calls, self._config.max_calls)
            window = steps[first : first + length]
            if len(window) < self._config.min_calls:
                break
            if not focus or any(set(step.tools) & set(focus) for step in window):
                windows.append([step.action for step in window])
                first += len(window)
            else:
                first += 1
        return windows

    def _cut(self, calls: list[str], rng: random.Random) -> tuple[tuple[str, ...], ...]:
        """The calls dealt over 1 to ``max_turns`` user turns, in order, none of them empty."""
        turns = rng.randint(1, min(self._config.max_turns, len(calls)))
        cuts = [0, *sorted(rng.sample(range(1, len(calls)), turns - 1)), len(calls)]
        return tuple(tuple(calls[a:b]) for a, b in itertools.pairwise(cuts))


def _useful(steps: Sequence[Triplet]) -> list[Triplet]:
    """Steps without an error, and none that only repeats the call and the answer of an earlier one."""
    seen: set[tuple[str, str]] = set()
    useful = []
    for step in sorted(steps, key=lambda step: step.index):
        if not step.failed and (step.action, step.observation) not in seen:
            seen.add((step.action, step.observation))
            useful.append(step)
    return useful


register_explorer("scripted", ScriptedExplorer)
