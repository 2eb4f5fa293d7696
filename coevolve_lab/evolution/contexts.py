"""Where to explore: how many contexts a round gets, and which weaknesses or tools they are about (section 3.2).

What the paper's text says comes nearest to ``mode: feedback, balance: none``: it reflects on each trajectory that
carries a signal, where ours are ``contexts_per_round`` of them. The default, ``balance: floor``, spreads a share of the
contexts over all tools and weighs the rest by weakness per try, since raw counts follow what is tried most.
"""

from __future__ import annotations

import dataclasses
import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, Literal

from coevolve_lab.config import EvolutionConfig
from coevolve_lab.environments.base import Environment, ScriptedWorld
from coevolve_lab.errors import EnvironmentFailure
from coevolve_lab.evolution.calls import solution_tools
from coevolve_lab.evolution.explorer import Explorer, Occasion
from coevolve_lab.records import ExplorationContext, Signal, Task, Trajectory

Start = Mapping[str, Any]
FRESH_DRAWS = 40  # random starts that are tried for one that offers given tools


class StartPool:
    """Start states for exploration, never held-out ones, and the tools they offer (read once from the split "explore").

    A scripted world makes new starts without end; other environments offer those of the split. Raises
    EnvironmentFailure if the split is empty.
    """

    def __init__(self, environment: Environment) -> None:
        self._world = environment if isinstance(environment, ScriptedWorld) else None
        offers = [(task.start, frozenset(_offered(environment, task))) for task in environment.tasks("explore")]
        if not offers:
            raise EnvironmentFailure(f"environment '{environment.name}' has no start states in its split 'explore'")
        self._offers = offers
        self.tools: tuple[str, ...] = tuple(sorted(frozenset().union(*(tools for _, tools in offers))))

    def sample(self, rng: random.Random, tools: Sequence[str] = ()) -> Start:
        """A random start that offers ``tools``, or as many of them as any start of the split does."""
        wanted = frozenset(tools)
        best = max(len(wanted & offered) for _, offered in self._offers)
        if self._world is not None:
            for _ in range(FRESH_DRAWS):
                start = self._world.start("train", rng)
                if len(wanted & set(self._world.tool_names(start))) >= best:
                    return start
        return rng.choice([start for start, offered in self._offers if len(wanted & offered) == best])


def plan_contexts(
    explorer: Explorer,
    config: EvolutionConfig,
    pool: StartPool,
    occasion: Occasion,
    signals: Sequence[Signal] = (),
    trajectories: Sequence[Trajectory] = (),
    tasks: Sequence[Task] = (),
) -> list[ExplorationContext]:
    """The round's contexts in the configured mode; ``config.contexts_per_round`` of them, or none in mode "none".

    In mode "feedback" the explorer reflects on the selected signals; contexts of kind "coverage" have no signal. With
    ``balance: none`` a round without signals has no contexts.
    """
    count = config.contexts_per_round
    if config.mode == "none":
        return []
    if config.mode != "feedback":
        return unguided_contexts(config.mode, count, pool, occasion, explorer.name)
    floor = config.floor if config.balance == "floor" else None
    chosen = select_signals(signals, trajectories, tasks, count, occasion, floor)
    contexts = explorer.reflect(chosen, trajectories, tasks, occasion)
    missing = count - len(contexts) if floor is not None else 0
    return contexts + unguided_contexts("coverage", missing, pool, occasion, explorer.name, first=len(chosen))


def unguided_contexts(
    kind: Literal["seed", "random", "uniform", "coverage"],
    count: int,
    pool: StartPool,
    occasion: Occasion,
    explorer: str = "",
    first: int = 0,
) -> list[ExplorationContext]:
    """Contexts without a signal. seed (D_0) and random: no focus, so the explorer follows its own preferences; uniform
    and coverage: one focus tool each, evenly over all tools and on from round to round. first: number of the first id.
    """
    even = spread(pool.tools, count, occasion) if kind in ("uniform", "coverage") else [None] * count
    contexts = []
    for i, tool in enumerate(even):
        focus = () if tool is None else (tool,)
        contexts.append(
            ExplorationContext(
                id=occasion.ident("ctx", first + i),
                kind=kind,
                round=occasion.round,
                start=pool.sample(occasion.rng("start", kind, i), focus),
                summary=f"Exploration of {tool}, whatever the signals say." if tool else "Unguided exploration.",
                focus_pattern=focus,
                exploration_objectives=(f"Call {tool} with varied arguments.",) if tool else (),
                explorer=explorer,
            )
        )
    return contexts


def select_signals(
    signals: Sequence[Signal],
    trajectories: Sequence[Trajectory],
    tasks: Sequence[Task],
    count: int,
    occasion: Occasion,
    floor: float | None,
) -> list[Signal]:
    """The signals to reflect on. Few signals are selected repeatedly, so that every mode explores equally much.

    floor None (``balance: none``): ``count`` of them, each as often as any other. Otherwise ``count`` less the floor's
    share; each tool gets places in proportion to (signals about it) / (trajectories that had to do with it).
    """
    ordered = list(signals)
    occasion.rng("signals").shuffle(ordered)
    if floor is None or not ordered:
        return [ordered[i % len(ordered)] for i in range(count)] if ordered else []
    by_tool: dict[str, list[Signal]] = defaultdict(list)
    evidence = Evidence(trajectories, tasks)
    for signal in ordered:
        for tool in evidence.weak_tools(signal):
            by_tool[tool].append(signal)
    tried = evidence.tries()
    weakness = {tool: len(marked) / max(tried[tool], len(marked)) for tool, marked in sorted(by_tool.items())}
    places = proportional(weakness, count - round(floor * count), occasion.rng("places"))
    used: Counter[str] = Counter()
    chosen = []
    for tool in places:
        chosen.append(by_tool[tool][used[tool] % len(by_tool[tool])])
        used[tool] += 1
    return chosen


class Evidence:
    """The trajectories of a round by id and by group, with their tasks: what a signal can be explained from."""

    def __init__(self, trajectories: Sequence[Trajectory], tasks: Sequence[Task]) -> None:
        self.tasks = {task.id: task for task in tasks}
        self.trajectories = {trajectory.id: trajectory for trajectory in trajectories}
        self.groups: dict[str, list[Trajectory]] = defaultdict(list)
        for trajectory in trajectories:
            self.groups[trajectory.group_id].append(trajectory)

    def tries(self) -> Counter[str]:
        """For each tool, the number of trajectories that called it or should have."""
        return Counter(t for trajectory in self.trajectories.values() for t in self._concerned(trajectory))

    def weak_tools(self, signal: Signal) -> tuple[str, ...]:
        """The tools that a signal is about: its pattern; else what parts success from failure in its group; else the
        tools of the task's solution; else those that the trajectory called."""
        if signal.pattern:
            return tuple(dict.fromkeys(signal.pattern))
        task = self.tasks.get(signal.task_id)
        solution = solution_tools(task.solution) if task else ()
        if signal.kind == "boundary":
            parting = self.parting_tools(signal.group_id, solution)
            if parting:
                return parting
        trajectory = self.trajectories.get(signal.trajectory_id)
        return solution or (tuple(dict.fromkeys(trajectory.tools)) if trajectory else ())

    def parting_tools(self, group_id: str, candidates: Sequence[str] = ()) -> tuple[str, ...]:
        """Tools that succeeding members of a group call without an error more often than failing ones, most first.

        candidates: consider only these; empty: all that succeeding members call. () if nothing parts them.
        """
        won = [good_tools(t) for t in self.groups[group_id] if t.score > 0.5]
        lost = [good_tools(t) for t in self.groups[group_id] if t.score < 0.5]
        if not won or not lost:
            return ()
        names = candidates or sorted(set().union(*won))
        gap = {n: sum(n in g for g in won) / len(won) - sum(n in g for g in lost) / len(lost) for n in names}
        return tuple(sorted((n for n in names if gap[n] > 0), key=lambda n: -gap[n]))

    def _concerned(self, trajectory: Trajectory) -> set[str]:
        task = self.tasks.get(trajectory.task_id)
        return {*trajectory.tools, *(solution_tools(task.solution) if task else ())}


def good_tools(trajectory: Trajectory) -> set[str]:
    """Tools that were called in steps without an error."""
    return {name for step in trajectory.steps if not step.failed for name in step.tools}


def spread(names: Sequence[str], count: int, occasion: Occasion) -> list[str]:
    """``count`` names, each as often as any other (give or take one), in a fixed order that goes on each round."""
    order = sorted(names)
    random.Random(f"spread/{occasion.seed}").shuffle(order)
    first = (occasion.round + occasion.call) * count
    return [order[(first + i) % len(order)] for i in range(count)]


def proportional(weights: Mapping[str, float], count: int, rng: random.Random) -> list[str]:
    """``count`` keys in random order, each within one of its exact share of the weights (systematic sampling)."""
    keys, total = list(weights), sum(weights.values())
    if not keys or total <= 0:
        return []
    bounds = list(accumulate(weights[key] * count / total for key in keys))
    offset, index, drawn = rng.random(), 0, []
    for i in range(count):
        while index < len(keys) - 1 and bounds[index] <= i + offset:
            index += 1
        drawn.append(keys[index])
    rng.shuffle(drawn)
    return drawn


def preferences(names: Sequence[str], skew: float, seed: int) -> dict[str, float]:
    """An explorer's own taste: Zipf weights 1 / rank ** skew over an order of the tools fixed by the run's seed.

    names: all tools of the environment, not only those of one start, so that a tool has one rank everywhere.
    """
    order = sorted(names, key=lambda name: random.Random(f"taste/{seed}/{name}").random())
    return {name: 1 / (rank + 1) ** skew for rank, name in enumerate(order)}


def _offered(environment: Environment, task: Task) -> Sequence[str]:
    if isinstance(environment, ScriptedWorld):
        return environment.tool_names(task.start)
    session = environment.open(dataclasses.replace(task, turns=("Explore.",)))
    try:
        return [str(schema.get("function", schema)["name"]) for schema in session.tools]
    finally:
        session.close()
