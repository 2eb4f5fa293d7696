"""Demonstrations that a model made from nothing is warmed up on, before any reinforcement.

They are deliberately poor: tools are shown as often as a Zipf law says, and a share of the calls is replaced by a
plausible confusion (another tool, the same kind of arguments), more often for rarely shown tools. So the warm policy
knows how to write calls and copy names, and is weak where its demonstrations were thin or wrong: those are the planted
weaknesses that the loop can find. A pretrained LLM needs none of this.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from coevolve_lab.config import WarmStartConfig
from coevolve_lab.environments.base import Environment, ScriptedWorld, Session
from coevolve_lab.records import Task


class DemonstrationWorld(Environment, ScriptedWorld, Protocol):
    """An environment that demonstrations can be made in: it also knows which tools are easily confused."""

    def confusable(self, tool: str) -> Sequence[str]: ...


@dataclass(frozen=True)
class Demonstration:
    """One conversation: what the user says, then (action, reply) pairs; the last action is plain text."""

    query: str
    exchanges: tuple[tuple[str, str], ...]
    planted: int  # how many of its calls are deliberate mistakes


DONE = "done"


def demonstrate(world: DemonstrationWorld, config: WarmStartConfig, seed: int) -> list[Demonstration]:
    """``config.demonstrations`` conversations on start states of the train pool."""
    rng = random.Random(seed)
    made: list[Demonstration] = []
    for _ in range(10 * config.demonstrations):
        if len(made) == config.demonstrations:
            break
        one = _one(world, config, rng, seed)
        if one is not None:
            made.append(one)
    return made


def ranked_tools(tools: Sequence[str], seed: int) -> list[str]:
    """Tools from the most to the least demonstrated: one fixed order for a seed."""
    order = sorted(tools)
    random.Random(seed).shuffle(order)
    return order


def noise_of(rank: int, tools: int, config: WarmStartConfig) -> float:
    """Share of planted mistakes at a rank: from ``noise_common`` (rank 0) to ``noise_rare`` (last), evenly or not."""
    if config.weak_tools is not None:
        return config.noise_rare if rank >= tools - config.weak_tools else config.noise_common
    share = rank / max(1, tools - 1)
    return config.noise_common + (config.noise_rare - config.noise_common) * share


def _one(
    world: DemonstrationWorld, config: WarmStartConfig, rng: random.Random, order_seed: int
) -> Demonstration | None:
    """One conversation, or None when too few calls fitted the start state that was drawn."""
    start = world.start("train", rng)
    tools = ranked_tools(world.tool_names(start), order_seed)
    weights = [1.0 / (rank + 1) ** config.skew for rank in range(len(tools))]
    session = world.open(Task("demonstration", world.name, ("",), start))
    phrases: list[str] = []
    exchanges: list[tuple[str, str]] = []
    planted = 0
    wanted = rng.randint(1, config.max_calls)
    for _ in range(4 * wanted):
        if len(phrases) == wanted:
            break
        tool = rng.choices(tools, weights)[0]
        call = world.bind(session, tool, rng)
        if call is None:
            continue
        mistaken = rng.random() < noise_of(tools.index(tool), len(tools), config)
        shown, reply = (_confused(world, session, call, tool, rng) if mistaken else None) or (call, "")
        if shown == call:
            reply, _ = session.step(f"[{call}]")
            if session.last_failed:
                continue  # the binding did not fit after all: nothing to demonstrate
        planted += shown != call
        phrases.append(world.phrase(call, rng))
        exchanges.append((f"[{shown}]", reply))
    session.close()
    if not phrases:
        return None
    made = Demonstration(" then ".join(phrases), (*exchanges, (DONE, "")), planted)
    return _renamed(made, rng) if rng.random() < config.drills else made


def _confused(
    world: DemonstrationWorld, session: Session, call: str, tool: str, rng: random.Random
) -> tuple[str, str] | None:
    """A plausible mistake that runs, and its reply: an easily confused tool, with the same arguments if they fit."""
    others = list(world.confusable(tool))
    rng.shuffle(others)
    for other in others:
        for wrong in (other + call[len(tool) :], world.bind(session, other, rng)):
            if wrong is not None:
                reply, _ = session.step(f"[{wrong}]")
                if not session.last_failed:
                    return wrong, reply
    return None


def _renamed(made: Demonstration, rng: random.Random) -> Demonstration:
    """A copying drill: each word that the actions quote from the query becomes a made-up word, everywhere alike.

    Without it a small model learns the few hundred names it saw instead of learning to copy.
    """
    actions = " ".join(action for action, _ in made.exchanges)
    quoted = {word for value in re.findall(r"'([^']*)'", actions) for word in re.findall(r"[A-Za-z]{3,}", value)}
    names = {word: _made_up(rng) for word in sorted(quoted) if re.search(rf"\b{word}\b", made.query)}
    if not names:
        return made
    pattern = re.compile(r"\b(" + "|".join(names) + r")\b")
    keep = {action.split("(")[0].lstrip("[") for action, _ in made.exchanges}

    def rename(text: str) -> str:
        return pattern.sub(lambda m: m[0] if m[0] in keep else names[m[0]], text)

    exchanges = tuple((rename(action), rename(reply)) for action, reply in made.exchanges)
    return Demonstration(rename(made.query), exchanges, made.planted)


def _made_up(rng: random.Random) -> str:
    syllables = rng.randint(1, 3)
    letters = ("bcdfghjklmnprstvwz", "aeiou", " nrstl")
    return "".join(rng.choice(some) for _ in range(syllables) for some in letters).replace(" ", "")
