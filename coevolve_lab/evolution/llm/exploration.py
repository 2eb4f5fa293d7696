"""An LLM explores (section 3.2): several rollouts a context, several steps a rollout, each in a real session."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from coevolve_lab.config import EvolutionConfig
from coevolve_lab.environments.base import Environment, Session, session_places
from coevolve_lab.evolution.explorer import Occasion
from coevolve_lab.evolution.llm.actions import STOP
from coevolve_lab.evolution.llm.transcripts import as_data, context_text, tool_listing
from coevolve_lab.evolution.llm.voice import Voice, opening
from coevolve_lab.evolution.start_states import open_start
from coevolve_lab.records import ExplorationContext, Triplet

# Which guidance a context's kind gets; a signal that a user has registered gets "guidance_signal".
GUIDANCE = {
    **{kind: f"guidance_{kind}" for kind in ("forgetting", "boundary", "rare")},
    **dict.fromkeys(("seed", "random", "uniform", "coverage"), "guidance_unguided"),
}


async def explore(
    environment: Environment,
    config: EvolutionConfig,
    voice: Voice,
    contexts: Sequence[ExplorationContext],
    occasion: Occasion,
) -> list[Triplet]:
    """The triplets of all rollouts, which run side by side, in the order of the contexts."""
    rounds = config.rollouts_per_context
    places = session_places(environment)

    async def placed(context: ExplorationContext, rollout: str, number: int) -> list[Triplet]:
        async with places:
            return await _rollout(environment, config, voice, context, rollout, number, occasion.round)

    rollouts = [
        placed(context, occasion.ident("explore", i * rounds + r), r)
        for i, context in enumerate(contexts)
        for r in range(rounds)
    ]
    return [triplet for rollout in await asyncio.gather(*rollouts) for triplet in rollout]


async def _rollout(
    environment: Environment,
    config: EvolutionConfig,
    voice: Voice,
    context: ExplorationContext,
    rollout: str,
    number: int,
    round: int,
) -> list[Triplet]:
    """The steps that were made until the model stops, writes no action, or the budget is used up.

    An environment that breaks ends the rollout; its last triplet then holds the error, marked as failed.
    """
    triplets: list[Triplet] = []

    def record(action: str, observation: str, failed: bool, tools: tuple[str, ...] = ()) -> None:
        index = len(triplets)
        name = f"{rollout}-{index}"
        triplets.append(Triplet(name, context.id, rollout, index, action, observation, failed, round, tools))

    try:
        session = open_start(environment, context.start)
    except Exception as error:  # one rollout must not sink the others, whatever a benchmark's own code raises
        record("", f"{type(error).__name__}: {error}"[:500], True)
        return triplets
    try:
        messages = _opening(config, voice, context, session, number)
        for left in range(config.steps_per_rollout - 1, -1, -1):
            action = await voice.act("explore", f"{rollout}-{len(triplets)}", messages)
            if action is None or action == STOP:
                break
            try:
                observation, done = session.step(action)
            except Exception as error:
                record(action, f"{type(error).__name__}: {error}"[:500], True)
                break
            if done and not session.last_tools and not session.last_failed and not observation:
                break  # words that call nothing: they ended the episode and changed nothing
            record(action, observation, session.last_failed, session.last_tools)
            if done:
                break
            shown = voice.prompts.fill("explore_step", observation=as_data("observation", observation), left=left)
            messages.append({"role": "user", "content": shown})
    finally:
        session.close()
    return triplets


def _opening(
    config: EvolutionConfig, voice: Voice, context: ExplorationContext, session: Session, number: int
) -> list[dict[str, str]]:
    fill = voice.prompts.fill
    return opening(
        fill("explore_system", action_format=fill("action_format")),
        fill(
            "explore",
            guidance=fill(GUIDANCE.get(context.kind, "guidance_signal")),
            context=as_data("context", context_text(context)),
            tools=tool_listing(session.tools),
            steps=config.steps_per_rollout,
            rollout=number + 1,
            rollouts=config.rollouts_per_context,
        ),
    )
