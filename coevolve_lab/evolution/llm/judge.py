"""The paper's validation (section 3.3): an agent executes query and solution afresh, and an LLM judges what it did.

By default the check by execution decides (``validation.py``, design rule 4); this stands beside it, or in its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from coevolve_lab.environments.base import Environment, Session, session_places
from coevolve_lab.evolution.explorer import Occasion
from coevolve_lab.evolution.llm.actions import STOP
from coevolve_lab.evolution.llm.transcripts import as_data, steps_text, tool_listing
from coevolve_lab.evolution.llm.voice import Voice, opening, subject
from coevolve_lab.evolution.validation import END_OF_TURN
from coevolve_lab.records import Judgement, Task, TaskDraft

MAX_REASON_CHARS = 1_000
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"reason": {"type": "string"}, "success": {"type": "boolean"}},
    "required": ["reason", "success"],
    "additionalProperties": False,
}


class _Watched(NamedTuple):
    tools: str
    transcript: str
    score: float


async def judge_drafts(
    drafts: Sequence[TaskDraft], environment: Environment, voice: Voice, occasion: Occasion, max_steps: int
) -> list[Judgement]:
    """One judgement per draft, in order; success is None where the model or the environment failed, with the reason.

    max_steps: most actions of the agent that executes a draft, over all user turns.
    """
    places = session_places(environment)

    async def placed(draft: TaskDraft) -> Judgement:
        async with places:
            return await _judged(draft, environment, voice, occasion, max_steps)

    return await asyncio.gather(*map(placed, drafts))


async def _judged(
    draft: TaskDraft, environment: Environment, voice: Voice, occasion: Occasion, max_steps: int
) -> Judgement:
    name, about = occasion.ident("judgement", draft.id), subject(draft.id, occasion)
    try:
        watched = await _watch(draft, environment, voice, about, max_steps)
    except _Broken as error:
        return Judgement(name, draft.id, occasion.round, None, f"the environment failed: {error}"[:MAX_REASON_CHARS])
    task = "\n".join(f"Message {number}: {turn}" for number, turn in enumerate(draft.turns, 1))
    solution = "\n".join(f"For message {number}: {_calls(calls)}" for number, calls in enumerate(draft.solution, 1))
    messages = opening(
        voice.prompts.fill("judge_system"),
        voice.prompts.fill(
            "judge",
            tools=watched.tools,
            task=as_data("task", task),
            solution=as_data("solution", solution),
            transcript=as_data("transcript", watched.transcript),
        ),
    )
    reply = await voice.ask("judge", about, messages, SCHEMA)
    success = reason = None
    if reply.data is not None:
        success, reason = bool(reply.data["success"]), str(reply.data["reason"]).strip()
    return Judgement(
        id=name,
        draft_id=draft.id,
        round=occasion.round,
        success=success,
        reason=(f"no answer: {reply.status}" if reason is None else reason)[:MAX_REASON_CHARS],
        played=watched.score,
        model=reply.call.model,
    )


async def _watch(draft: TaskDraft, environment: Environment, voice: Voice, about: str, max_steps: int) -> _Watched:
    """What the agent did with the draft, turn by turn. Raises _Broken."""
    task = Task(draft.id, draft.environment, draft.turns, draft.start, draft.solution, origin=draft.origin)
    session = _try(environment.open, task)
    try:
        tools = tool_listing(session.tools)
        fill = voice.prompts.fill
        system = fill("execute_system", action_format=fill("action_format"), tools=tools)
        lines, left = [], max_steps
        # each user turn is a conversation of its own: the calls that are proposed for it hold all that it needs
        for turn, (message, hinted) in enumerate(zip(draft.turns, draft.solution, strict=False)):
            request = fill("execute", message=as_data("message", message), solution=as_data("solution", _calls(hinted)))
            steps, done = await _turn(session, voice, f"{about} turn {turn}", opening(system, request), left)
            left -= len(steps)
            lines += [f"user: {message}", steps_text(steps)]
            if not done and session.turn == turn:  # else the last action has ended the turn by itself
                _, done = _try(session.step, END_OF_TURN)
            if done or left <= 0:
                break
        return _Watched(tools, "\n".join(lines), _try(session.score))
    finally:
        session.close()


async def _turn(
    session: Session, voice: Voice, about: str, messages: list[dict[str, str]], left: int
) -> tuple[list[tuple[str, str, bool]], bool]:
    """The agent's (action, observation, failed) steps for one user message, and whether the episode is over."""
    steps: list[tuple[str, str, bool]] = []
    turn = session.turn
    while len(steps) < left:
        action = await voice.act("judge", f"{about} step {len(steps)}", messages)
        if action is None or action == STOP:
            break
        observation, done = _try(session.step, action)
        steps.append((action, observation, session.last_failed))
        if done or session.turn != turn:
            return steps, done
        shown = voice.prompts.fill("execute_step", observation=as_data("observation", observation))
        messages.append({"role": "user", "content": shown})
    return steps, False


def _calls(calls: Sequence[str]) -> str:
    return "\n".join(calls) or "(none)"


class _Broken(Exception):
    """The environment failed on a draft; no draft may sink the others, whatever a benchmark's own code raises."""


def _try(do: Any, *given: Any) -> Any:
    try:
        return do(*given)
    except Exception as error:
        raise _Broken(f"{type(error).__name__}: {error}") from error
