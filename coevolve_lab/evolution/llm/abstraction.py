"""An LLM abstracts tasks from explored steps (section 3.3). It points at steps by number, so it can invent no call."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from coevolve_lab.config import EvolutionConfig
from coevolve_lab.environments.base import Environment
from coevolve_lab.evolution.calls import solution_key
from coevolve_lab.evolution.explorer import Occasion
from coevolve_lab.evolution.llm.queries import query_fault
from coevolve_lab.evolution.llm.transcripts import as_data, context_text, steps_text, tool_listing, tool_names
from coevolve_lab.evolution.llm.voice import Voice, opening, subject
from coevolve_lab.evolution.start_states import ORIGINS, offered_tools, replayed
from coevolve_lab.records import ExplorationContext, TaskDraft, Triplet

MAX_TASKS = 6  # of one context
MAX_RUNS_CHARS = 40_000  # of all runs of a context, in its prompt
_TURN: dict[str, Any] = {
    "type": "object",
    "properties": {"message": {"type": "string"}, "steps": {"type": "array", "items": {"type": "integer"}}},
    "required": ["message", "steps"],
    "additionalProperties": False,
}
# Section 3.3 has description and completion written too. They are for the writer, who plans better with them, and stay
# in the recorded exchange: whether a task is done is decided by executing its solution, not by what was said of it.
_TASK: dict[str, Any] = {
    "type": "object",
    "properties": {
        "description": {"type": "string"},
        "run": {"type": "integer"},
        "turns": {"type": "array", "items": _TURN},
        "completion": {"type": "string"},
    },
    "required": ["description", "run", "turns", "completion"],
    "additionalProperties": False,
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"tasks": {"type": "array", "items": _TASK}},
    "required": ["tasks"],
    "additionalProperties": False,
}


class _Proposal(NamedTuple):
    rollout_id: str
    turns: tuple[str, ...]
    solution: tuple[tuple[str, ...], ...]


async def abstract(
    environment: Environment,
    config: EvolutionConfig,
    voice: Voice,
    triplets: Sequence[Triplet],
    contexts: Sequence[ExplorationContext],
    occasion: Occasion,
    explorer: str,
) -> list[TaskDraft]:
    """Drafts in the order of the triplets' contexts. Proposals that cannot be used are counted in the call's record."""
    known = {context.id: context for context in contexts}
    explored: dict[str, dict[str, list[Triplet]]] = {}
    for triplet in triplets:
        if triplet.context_id in known:
            explored.setdefault(triplet.context_id, {}).setdefault(triplet.rollout_id, []).append(triplet)
    proposals = await asyncio.gather(
        *(
            _proposals(environment, config, voice, known[name], list(runs.values()), occasion)
            for name, runs in explored.items()
        )
    )
    drafts: dict[str, TaskDraft] = {}
    for name, found in zip(explored, proposals, strict=True):
        context = known[name]
        for proposal in found:
            # similar behaviour is merged: the same calls from the same start are one task
            key = solution_key(context.start, proposal.solution)
            if key not in drafts:
                drafts[key] = TaskDraft(
                    id=occasion.ident("draft", len(drafts)),
                    context_id=context.id,
                    rollout_id=proposal.rollout_id,
                    environment=environment.name,
                    turns=proposal.turns,
                    start=context.start,
                    solution=proposal.solution,
                    round=occasion.round,
                    origin=ORIGINS.get(context.kind, "feedback"),
                    explorer=explorer,
                )
    return list(drafts.values())


async def _proposals(
    environment: Environment,
    config: EvolutionConfig,
    voice: Voice,
    context: ExplorationContext,
    runs: list[list[Triplet]],
    occasion: Occasion,
) -> list[_Proposal]:
    runs = [sorted(run, key=lambda step: step.index) for run in runs]
    if all(sum(not step.failed for step in run) < config.min_calls for run in runs):
        return []  # nothing to make a task of, so nothing is asked
    tools = offered_tools(environment, context.start)
    shown = "\n\n".join(
        f"Run {number}:\n{as_data('run', _shown(run), MAX_RUNS_CHARS // len(runs))}"
        for number, run in enumerate(runs, 1)
    )
    limits = {"min_calls": config.min_calls, "max_calls": config.max_calls, "max_turns": config.max_turns}
    messages = opening(
        voice.prompts.fill("abstract_system", max_tasks=MAX_TASKS, **limits),
        voice.prompts.fill(
            "abstract",
            context=as_data("context", context_text(context)),
            tools=tool_listing(tools),
            runs=shown,
        ),
    )
    reply = await voice.ask("abstract", subject(context.id, occasion), messages, SCHEMA)
    if reply.data is None:
        return []
    good: list[_Proposal] = []
    faults: Counter[str] = Counter()
    for written in reply.data["tasks"]:
        if len(good) >= MAX_TASKS:
            faults["surplus"] += 1
            continue
        read = _read(environment, config, context, runs, written, tool_names(tools))
        if isinstance(read, str):
            faults[read] += 1
        else:
            good.append(read)
    if faults:
        listed = ", ".join(f"{fault} {count}" for fault, count in sorted(faults.items()))
        voice.mark(reply, detail=f"{faults.total()} of {len(reply.data['tasks'])} tasks refused: {listed}")
    return good


def _read(
    environment: Environment,
    config: EvolutionConfig,
    context: ExplorationContext,
    runs: list[list[Triplet]],
    written: Mapping[str, Any],
    tools: Sequence[str],
) -> _Proposal | str:
    """A proposal whose solution was executed and, played alone, still works; or in one word why it is none."""
    turns = [[int(number) for number in turn["steps"]] for turn in written["turns"]]  # JSON's 3.0 is an integer too
    if not 1 <= written["run"] <= len(runs) or not 1 <= len(turns) <= config.max_turns:
        return "shape"
    run = runs[int(written["run"]) - 1]
    numbers = [number for turn in turns for number in turn]
    if any(not 1 <= number <= len(run) for number in numbers) or numbers != sorted(set(numbers)):
        return "steps"
    if any(run[number - 1].failed or not run[number - 1].action for number in numbers):
        return "failed_step"
    if not config.min_calls <= len(numbers) <= config.max_calls:
        return "length"
    messages = tuple(turn["message"].strip() for turn in written["turns"])
    if fault := query_fault(messages, tools):
        return fault
    working = replayed(environment, context.start, [run[number - 1].action for number in numbers])
    solution, position = [], 0
    for turn in turns:
        calls = []
        for number in turn:
            # what still works is a subsequence of what was played
            if position < len(working) and working[position] == run[number - 1].action:
                calls.append(working[position])
                position += 1
        solution.append(tuple(calls))
    if len(working) < config.min_calls or not all(solution):
        return "replay"
    return _Proposal(run[0].rollout_id, messages, tuple(solution))


def _shown(run: Sequence[Triplet]) -> str:
    return steps_text((step.action, step.observation, step.failed) for step in run)
