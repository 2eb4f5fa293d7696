"""Asks an endpoint with the run's prompts, reads actions from replies, and keeps what came of each call."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from coevolve_lab.endpoint import Endpoint, Reply
from coevolve_lab.evolution.explorer import Occasion
from coevolve_lab.evolution.llm.actions import read_action
from coevolve_lab.evolution.llm.prompting import Prompts
from coevolve_lab.evolution.llm.transcripts import cut_middle
from coevolve_lab.records import ModelCall

ACTION_TRIES = 2  # replies in which an action is looked for before an episode ends
HISTORY_PAIRS = 12  # latest (reply, result) pairs that are sent along; what is older is left out
MAX_REPLY_CHARS = 4_000  # of an earlier reply that is sent along
EXHAUSTED = ("budget", "deadline")  # of ModelCall.status: asking once more is of no use


class Voice:
    """One endpoint and one set of prompts, for all stages."""

    def __init__(self, endpoint: Endpoint, prompts: Prompts) -> None:
        self.endpoint = endpoint
        self.prompts = prompts
        self._marks: dict[str, dict[str, str]] = {}

    async def ask(
        self, role: str, subject: str, messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any] | None = None
    ) -> Reply:
        """A reply, whatever the endpoint does; its ``status`` tells. Raises ExplorerError if none can be asked."""
        return await self.endpoint.ask(role, subject, messages, schema=schema)

    async def act(self, role: str, subject: str, messages: list[dict[str, str]]) -> str | None:
        """The next action of an episode (or ``actions.STOP``); None when no reply holds one.

        messages: the episode so far, the first two of which are always sent; it grows by the reply.
        """
        for attempt in range(ACTION_TRIES):
            if attempt:
                again = self.prompts.fill("act_again", action_format=self.prompts.fill("action_format"))
                messages.append({"role": "user", "content": again})
            reply = await self.ask(role, subject, [*messages[:2], *messages[2:][-2 * HISTORY_PAIRS :]])
            if reply.status in EXHAUSTED:
                return None
            messages.append({"role": "assistant", "content": cut_middle(reply.text, MAX_REPLY_CHARS) or "(nothing)"})
            action = read_action(reply.text)
            if action is not None:
                return action
            if reply.status == "ok":
                self.mark(reply, status="malformed", detail="no action could be read in the reply")
        return None

    def mark(self, reply: Reply, **changes: str) -> None:
        """Note in the record of a call what its answer turned out to be worth (fields of ModelCall)."""
        self._marks[reply.call.id] = changes

    def calls(self) -> list[ModelCall]:
        """The calls since this was asked last, as marked."""
        marked = [dataclasses.replace(call, **self._marks.get(call.id, {})) for call in self.endpoint.drain()]  # type: ignore[arg-type]
        self._marks.clear()
        return marked


def opening(system: str, user: str) -> list[dict[str, str]]:
    """The first two messages of a conversation."""
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def subject(name: str, occasion: Occasion) -> str:
    """What a call is about: the id ``name``, told apart when its stage is called again, so that it is asked afresh."""
    return f"{name} call {occasion.call}" if occasion.call else name
