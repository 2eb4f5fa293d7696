"""The wire: the openai package's client, which belongs to one event loop, and what can go wrong on it.

Retries on 408, 409, 429 and 5xx with backoff and jitter, and Retry-After up to two minutes, are the package's own; here
they are counted, and go on where it stops: when a connection is lost in the middle of a body.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import random
from contextvars import ContextVar
from typing import Any
from urllib.parse import urlsplit

from coevolve_lab.config import EndpointConfig
from coevolve_lab.errors import ExplorerError, PrerequisiteError

MAX_BODY = 8 * 2**20  # bytes of one response that are read
MAX_ERROR = 2**16  # bytes of an error's body that are read
_requests: ContextVar[list[int]] = ContextVar("requests")  # made so far for the call of this task


class RefusedError(Exception):
    """The endpoint answered with an error, after all retries."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"HTTP {code}: {message}")
        self.code = code


class LostError(Exception):
    """No whole response came back, after all retries."""


class OversizeError(Exception):
    """The response is longer than ``MAX_BODY``."""


class Wire:
    """Clients and places for calls of one event loop. Made and closed in it."""

    def __init__(self, connections: int, retries: int) -> None:
        self.places = asyncio.Semaphore(connections)
        self._retries = retries
        self._clients: dict[tuple[str | None, str], Any] = {}

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()

    async def post(self, config: EndpointConfig, parameters: dict[str, Any], requests: list[int]) -> bytes:
        """The body of one chat completion. requests[0] grows with every request that is made.

        Raises RefusedError, LostError or OversizeError, and what ``client`` raises.
        """
        client = self.client(config)
        import openai  # there, or the line above raised

        before = requests[0]
        token = _requests.set(requests)
        try:
            while True:
                try:
                    return await _read(client, parameters)
                except _BrokenOffError as error:
                    made = requests[0] - before
                    if made == 0 or made > self._retries:
                        raise LostError(str(error)) from error
                client = client.with_options(max_retries=self._retries - made)
                await asyncio.sleep(min(8.0, 0.5 * 2 ** (made - 1)) * random.uniform(0.75, 1.0))
        except openai.APIStatusError as error:
            raise RefusedError(error.status_code, error.message) from error
        except openai.APIError as error:
            cause = error.__cause__
            raise LostError(f"{type(cause).__name__}: {cause}" if cause else str(error)) from error
        finally:
            _requests.reset(token)

    def client(self, config: EndpointConfig) -> Any:
        """The openai client of an endpoint. The first one takes seconds: openai is imported for it.

        Raises ExplorerError without a key where one is needed, or an address; PrerequisiteError without openai.
        """
        name = (config.base_url, config.api_key_env)
        if name not in self._clients:
            self._clients[name] = _new_client(config, self._retries)
        return self._clients[name]


class _BrokenOffError(Exception):
    pass


async def _read(client: Any, parameters: dict[str, Any]) -> bytes:
    import openai

    body = bytearray()
    # As extra_body the parameters are sent as they are; as arguments each of their parts is looked up in the package's
    # types first, which with twenty tools takes longer than everything else in a request.
    asking = client.chat.completions.with_streaming_response.create(
        model=parameters["model"], messages=[], extra_body=parameters
    )
    try:
        async with asking as response:
            async for chunk in response.iter_bytes():
                body += chunk
                if len(body) > MAX_BODY:
                    break
    except openai.APIError:
        raise
    except Exception as error:  # of whichever HTTP package this version of openai uses, error bodies included
        raise _BrokenOffError(f"{type(error).__name__}: {error}") from error
    if len(body) > MAX_BODY:
        raise OversizeError(f"the response is longer than {MAX_BODY} bytes")
    return bytes(body)


def address(config: EndpointConfig) -> str:
    """Where requests go, for people: without the credentials that an address may hold."""
    parts = urlsplit(config.base_url or os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1")
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def secrets(config: EndpointConfig) -> list[str]:
    """What must be blotted out of everything that is kept. Short words are placeholders, not secrets."""
    password = urlsplit(config.base_url or "").password
    return [secret for secret in (_key(config), password) if secret and len(secret) >= 8]


def _key(config: EndpointConfig) -> str:
    return os.environ.get(config.api_key_env, "").strip()


def _new_client(config: EndpointConfig, retries: int) -> Any:
    try:
        import openai
    except ImportError:
        raise PrerequisiteError("asking a model needs openai: pip install 'coevolve-lab[llm]'") from None
    where = urlsplit(address(config))
    if where.scheme not in ("http", "https") or not where.hostname:
        raise ExplorerError(
            f"base_url {address(config)!r} is not an address of an endpoint; write it like https://host.example/v1"
        )
    local, key = _is_loopback(where.hostname), _key(config)
    if not key and not local:
        raise ExplorerError(
            f"{address(config)} needs a key and the environment variable {config.api_key_env} is not set; set it, or "
            "name another variable as api_key_env"
        )
    if not key.isascii() or not (key or "x").isprintable():
        raise ExplorerError(f"the key in {config.api_key_env} holds characters that cannot be sent; copy it again")

    async def count(_: Any) -> None:
        _requests.get()[0] += 1

    async def shorten(response: Any) -> None:  # the package would read all of an error's body
        if response.status_code >= 400:
            body = bytearray()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > MAX_ERROR:
                    break
            await response.aclose()
            response._content = bytes(body[:MAX_ERROR])

    # Deadlines are kept by whoever asks. Prompts and key go to the configured address only: no redirects, and no proxy
    # between this machine and itself.
    http = openai.DefaultAsyncHttpxClient(
        event_hooks={"request": [count], "response": [shorten]},
        timeout=None,
        follow_redirects=False,
        trust_env=not local,
    )
    return openai.AsyncOpenAI(
        api_key=key or "none", base_url=config.base_url, max_retries=retries, timeout=None, http_client=http
    )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
