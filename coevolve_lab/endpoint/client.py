"""Asking models: by role, in parallel, within budgets, each question at most once in the life of a recording."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from coevolve_lab.config import EndpointConfig
from coevolve_lab.endpoint.budget import Budget, Limits
from coevolve_lab.endpoint.cassette import Cassette, prompt_key
from coevolve_lab.endpoint.dialect import Dialect
from coevolve_lab.endpoint.exchange import Exchange, Prompt, ToolCall, estimated, read_body
from coevolve_lab.endpoint.replies import Reply, read_text
from coevolve_lab.endpoint.text import clean
from coevolve_lab.endpoint.wire import LostError, OversizeError, RefusedError, Wire, address, secrets
from coevolve_lab.errors import ExplorerError
from coevolve_lab.records import ModelCall

_MAX_DETAIL = 400
_MAX_QUOTED = 20_000  # characters of a malformed reply that are sent back for repair


class Endpoint:
    """Models by role. One object serves a whole run; ``ask`` may be awaited many times at once, in any event loop.

    Clients to the endpoints live as long as the loop in which they were first needed, and are closed with its
    asynchronous generators (``asyncio.run`` does that).
    """

    def __init__(self, endpoints: Mapping[str, EndpointConfig], limits: Limits, cassette: Cassette) -> None:
        self.cassette = cassette
        self._endpoints = dict(endpoints)
        self._limits = limits
        self._round: int | None = None
        self._budget = Budget(limits)
        self._calls: list[ModelCall] = []
        self._asked: dict[str, int] = {}  # times that a key was asked in this round
        self._dialects: dict[tuple[str, str, str], Dialect] = {}
        self._wires: dict[asyncio.AbstractEventLoop, tuple[AsyncGenerator[Wire, None], Wire]] = {}

    def begin(self, round: int) -> None:
        """Say which evolution the next calls belong to; a new one has whole budgets."""
        if round != self._round:
            self._round = round
            self._budget = Budget(self._limits)
            self._asked = {}

    @property
    def exhausted(self) -> str:
        """Which budget stopped this evolution ("deadline", "tokens", "cost"), or ""."""
        return self._budget.exhausted

    def drain(self) -> list[ModelCall]:
        """Records of the requests since the last call of this, in order of completion."""
        calls, self._calls = self._calls, []
        return calls

    async def ask(
        self,
        role: str,
        subject: str,
        messages: Sequence[Mapping[str, Any]],
        *,
        schema: Mapping[str, Any] | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        temperature: float | None = None,
    ) -> Reply:
        """One question and its answer, from the recording when it has been asked before: same role, subject, words.

        Whatever the endpoint does or writes becomes a status. A reply that does not fit the schema is sent back once,
        with what is wrong about it; that makes a second call. subject: the id of what it is about; whoever wants
        several samples of one prompt gives each a subject of its own.

        Raises ExplorerError when asking is pointless: no key, a key or model that the endpoint does not accept, or a
        question that a recording being replayed does not hold. PrerequisiteError without the openai package.
        """
        config = self._endpoints.get(role)
        if config is None:
            raise ExplorerError(f"no endpoint for role {role!r}; there are {', '.join(self._endpoints)}")
        chosen = config.temperature if temperature is None else temperature
        prompt = Prompt(role, subject, config.model, clean(messages), schema, tools, chosen, config.max_tokens)
        reply = await self._ask(config, prompt)
        if schema is None or reply.status != "malformed" or not reply.text:
            return reply
        repair = (
            {"role": "assistant", "content": reply.text[:_MAX_QUOTED]},
            {
                "role": "user",
                "content": f"That cannot be used: {reply.call.detail}. Answer again, with nothing but one JSON value "
                "in the form that was asked for.",
            },
        )
        again = await self._ask(config, replace(prompt, messages=[*prompt.messages, *repair]))
        return again if again.status in ("ok", "malformed") else reply

    async def _ask(self, config: EndpointConfig, prompt: Prompt) -> Reply:
        key = prompt_key(prompt)
        exchange = self.cassette.find(key)
        replayed = exchange is not None
        if exchange is None:
            if self.cassette.replay_only:
                raise ExplorerError(
                    f"{self.cassette.path} holds no reply to {prompt.role} for {prompt.subject!r}: prompts, models or "
                    "inputs changed since it was recorded. Undo the change, or record anew: leave explorer.cassette out"
                )
            exchange = await self._request(config, prompt)
            self.cassette.add(key, prompt, exchange, self._secrets())
        if exchange.limit:
            self._budget.stop(exchange.limit)
        status, text, data, detail = read_text(exchange, prompt.schema)
        round = self._round or 0
        again = self._asked[key] = self._asked.get(key, 0) + 1
        counted = replayed and again > 1  # an interrupted stage was called again: it is in the budget and on record
        if not counted:
            self._budget.spend(exchange.prompt_tokens + exchange.completion_tokens, exchange.cost)
        call = ModelCall(
            id=f"call-{round}-{key[:16]}" + (f"-{again}" if again > 1 else ""),
            round=round,
            role=prompt.role,
            subject=prompt.subject,
            model=prompt.model,
            status=status,
            prompt_tokens=exchange.prompt_tokens,
            completion_tokens=exchange.completion_tokens,
            cost=0.0 if counted else exchange.cost,
            seconds=0.0 if counted else exchange.seconds,
            attempts=0 if replayed else exchange.attempts,
            replayed=replayed,
            detail=detail[:_MAX_DETAIL],
        )
        self._calls.append(call)
        return Reply(status, text, data, exchange.tool_calls, call)

    async def _request(self, config: EndpointConfig, prompt: Prompt) -> Exchange:
        """Ask the endpoint, within the deadline and the budgets."""
        wire = await self._wire()
        wire.client(config)  # not within the call's deadline
        budget = self._budget
        with budget.waiting():
            async with wire.places:
                if reached := budget.check():
                    status = "deadline" if reached == "deadline" else "budget"
                    return Exchange(status, detail=f"the evolution's {reached} is used up", limit=reached)
                began, requests, seconds = time.monotonic(), [0], budget.call_seconds()
                try:
                    async with asyncio.timeout(seconds):
                        exchange = await self._answer(wire, config, prompt, requests)
                except TimeoutError:
                    limit = "deadline" if budget.check() == "deadline" else ""
                    exchange = Exchange("deadline", detail=f"no reply within {seconds:.3g} s", limit=limit)
        prices = config.price_prompt * exchange.prompt_tokens + config.price_completion * exchange.completion_tokens
        return self._scrubbed(
            replace(exchange, cost=prices / 1e6, seconds=time.monotonic() - began, attempts=requests[0])
        )

    async def _answer(self, wire: Wire, config: EndpointConfig, prompt: Prompt, requests: list[int]) -> Exchange:
        """Ask in the endpoint's dialect, and learn it on the way."""
        where = (config.base_url or "", config.model, config.structured)
        dialect = self._dialects.get(where) or Dialect(schema=config.structured == "schema")
        learned: list[str] = []
        while True:
            try:
                body = await wire.post(config, dialect.parameters(prompt), requests)
                for secret in self._secrets():  # before anything is cut, which might leave a part of it
                    body = body.replace(secret.encode(), b"[key]")
                exchange = read_body(body, prompt)
                break
            except RefusedError as error:
                simpler = dialect.simpler(prompt, str(error)) if error.code in (400, 422) else None
                if simpler is None:
                    return self._refused(config, error)
                dialect = simpler[0]
                learned.append(simpler[1])
            except LostError as error:
                return Exchange("error", detail=f"no whole response from the endpoint: {error}")
            except OversizeError as error:
                cut = estimated(Exchange("cut", detail=str(error)), prompt)
                return replace(cut, completion_tokens=prompt.max_tokens)  # so much was paid for, at most
        if learned and self._dialects.get(where) != dialect:
            self._dialects[where] = dialect
            exchange = replace(exchange, detail="; ".join(filter(None, (*learned, exchange.detail))))
        return exchange

    def _refused(self, config: EndpointConfig, error: RefusedError) -> Exchange:
        said = self._scrub(str(error))[:_MAX_DETAIL]
        if error.code in (401, 403):
            raise ExplorerError(
                f"the key in {config.api_key_env} is not accepted for model {config.model!r}: {address(config)} "
                f"said {said}. Set it to a key of this endpoint"
            )
        if error.code == 404:
            raise ExplorerError(
                f"no model {config.model!r} there: {address(config)} said {said}. Check model and base_url "
                f"({address(config)}/models lists what it serves; most addresses end in /v1)"
            )
        return Exchange("error", detail=f"the endpoint said {said}")

    async def _wire(self) -> Wire:
        """This loop's wire, made on first use."""
        loop = asyncio.get_running_loop()
        if loop not in self._wires:
            generator = self._open(loop)
            self._wires[loop] = (generator, await anext(generator))
        return self._wires[loop][1]

    async def _open(self, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[Wire, None]:
        wire = Wire(self._limits.connections, self._limits.retries)
        try:
            yield wire
        finally:
            del self._wires[loop]
            await wire.close()

    def _secrets(self) -> list[str]:
        return [secret for config in self._endpoints.values() for secret in secrets(config)]

    def _scrub(self, text: str) -> str:
        for secret in self._secrets():
            text = text.replace(secret, "[key]")
        return text

    def _scrubbed(self, exchange: Exchange) -> Exchange:
        """An endpoint may say back what it was sent, also in an escaped form, which only reading its body uncovers."""
        calls = tuple(
            ToolCall(*(self._scrub(part) for part in (call.id, call.name, call.arguments)))
            for call in exchange.tool_calls
        )
        return replace(exchange, text=self._scrub(exchange.text), tool_calls=calls, detail=self._scrub(exchange.detail))
