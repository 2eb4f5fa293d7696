"""vLLM's HTTP interface, as much of it as an engine needs: token ids in, token ids and log-probabilities out, adapters.

A reply is read like anything else that came from outside: bounded in size, checked field by field, never trusted. The
paths and fields are those of vLLM 0.32.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

import httpx

from coevolve_lab.errors import PolicyError
from coevolve_lab.policy.engine import Completion, Request

CONTROL_SECONDS = 120.0  # deadline of a call that is not sampling: loading weights is the longest


class ServerBrokeError(PolicyError):
    """The server cannot be reached, or answers what no working server answers: a restart may mend it."""


class UnknownModelError(ServerBrokeError):
    """The server runs and does not know the model name: another process restarted it, or unloaded the adapter."""


@dataclass(frozen=True)
class Sampling:
    """What all requests of one call share. salt: keeps the prefix cache of one policy version apart from all others."""

    model: str
    salt: str
    end_ids: tuple[int, ...]
    temperature: float


def completion_body(request: Request, sampling: Sampling, seed: int, max_tokens: int) -> dict[str, Any]:
    """The JSON of one ``/v1/completions`` request: ids as they are, and nothing that bends the distribution.

    Only ``end_ids`` end an action: the ends in the model's own files would be others than the trainer's.
    """
    return {
        "model": sampling.model,
        "prompt": list(request.ids),
        "max_tokens": max_tokens,
        "temperature": sampling.temperature,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "seed": seed,
        "logprobs": 0,  # of the sampled token only
        "return_token_ids": True,
        "skip_special_tokens": False,
        "stop_token_ids": list(sampling.end_ids),
        "ignore_eos": True,
        "cache_salt": sampling.salt,
    }


def read_completion(reply: bytes, request: Request, end_ids: Sequence[int], max_tokens: int) -> Completion:
    """The sampled action in a reply. Raises ServerBrokeError for a reply that is cut, incomplete or of other ids."""
    choice = _only_choice(reply)
    if choice.get("prompt_token_ids") != list(request.ids):
        raise ServerBrokeError(f"the server sampled for {request.key} after other ids than it was sent")
    ids: Any = choice.get("token_ids")
    scores = choice.get("logprobs")
    logprobs: Any = scores.get("token_logprobs") if isinstance(scores, dict) else None
    if not _are_ids(ids) or not _are_logprobs(logprobs) or len(ids) != len(logprobs):
        raise ServerBrokeError(f"the server's reply for {request.key} lacks a finite log-probability for each token id")
    ended = bool(ids) and ids[-1] in end_ids
    if choice.get("finish_reason") not in ("stop", "length") or len(ids) > max_tokens or not (ids or not max_tokens):
        raise ServerBrokeError(
            f"the server's reply for {request.key} has {len(ids)} tokens of at most {max_tokens} and ended with "
            f"{str(choice.get('finish_reason'))[:40]!r}"
        )
    return Completion(tuple(ids), tuple(map(float, logprobs)), ended)


def read_prompt_logprobs(reply: bytes, ids: Sequence[int], start: int) -> list[float]:
    """Log-probabilities of ``ids[start:]`` in a reply that scores its prompt. Raises ServerBrokeError."""
    rows = _only_choice(reply).get("prompt_logprobs")
    if not isinstance(rows, list) or len(rows) != len(ids):
        raise ServerBrokeError("the server's reply does not score each token of the prompt")
    try:
        found = [rows[i][str(ids[i])]["logprob"] for i in range(start, len(ids))]
    except (TypeError, KeyError) as error:
        raise ServerBrokeError(f"the server's reply does not score the prompt's own tokens: {error!r}") from None
    if not _are_logprobs(found):
        raise ServerBrokeError("the server's log-probabilities of the prompt are not finite numbers")
    return [float(value) for value in found]


class VllmClient:
    """One server. Raises ServerBrokeError when it cannot be reached, PolicyError when it refuses what was asked."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    # ---- sampling

    def open(self) -> httpx.AsyncClient:
        """A session for many requests at once; their deadlines are the caller's."""
        return httpx.AsyncClient(
            base_url=self.url,
            timeout=None,
            limits=httpx.Limits(max_connections=None),
            trust_env=False,  # a proxy of the environment must not stand between this process and its own server
            verify=self.url.startswith("https"),
        )

    async def complete(self, session: httpx.AsyncClient, body: dict[str, Any], limit: int) -> bytes:
        """The reply to one completion request, at most ``limit`` bytes. Closing the connection aborts it there."""
        try:
            async with session.stream("POST", "/v1/completions", json=body) as response:
                reply = bytearray()
                async for part in response.aiter_bytes():
                    reply += part
                    if len(reply) > limit:
                        raise ServerBrokeError(f"the server's reply is longer than {limit} bytes")
        except httpx.HTTPError as error:
            raise ServerBrokeError(f"the server at {self.url} broke off: {_words(error)}") from error
        self._check(response.status_code, bytes(reply), "sample")
        return bytes(reply)

    def sample(self, request: Request, sampling: Sampling) -> Completion:
        """One action, as ``complete`` would have it sampled, with seed 0."""
        body = completion_body(request, sampling, 0, request.max_tokens)
        return read_completion(self._post("/v1/completions", body), request, sampling.end_ids, request.max_tokens)

    def prompt_logprobs(self, model: str, salt: str, ids: Sequence[int], start: int) -> list[float]:
        """Log-probabilities of ``ids[start:]``, each given what precedes it, at temperature 1."""
        body = {"model": model, "prompt": list(ids), "max_tokens": 1, "temperature": 1.0, "prompt_logprobs": 0}
        return read_prompt_logprobs(self._post("/v1/completions", {**body, "cache_salt": salt}), ids, start)

    # ---- weights

    def models(self) -> dict[str, dict[str, Any]]:
        """What the server serves, by name: the base model and the adapters."""
        listed: Any = _parsed(self._call("GET", "/v1/models")).get("data")
        if not isinstance(listed, list) or not all(
            isinstance(m, dict) and isinstance(m.get("id"), str) for m in listed
        ):
            raise ServerBrokeError(f"what answers at {self.url} is not a vLLM server: it lists no models")
        return {model["id"]: model for model in listed}

    def alive(self) -> bool:
        """Whether it answers at all."""
        try:
            self.models()
        except PolicyError:
            return False
        return True

    def load_adapter(self, name: str, folder: Path) -> None:
        self._post("/v1/load_lora_adapter", {"lora_name": name, "lora_path": str(folder)})

    def unload_adapter(self, name: str) -> None:
        self._post("/v1/unload_lora_adapter", {"lora_name": name})

    def reload_weights(self, folder: Path) -> None:
        """Replace the base model's weights by a folder's, in place, and forget what was computed with the old ones."""
        self._post("/collective_rpc", {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}})
        if _parsed(self._post("/reset_prefix_cache", {})).get("success") is not True:
            raise PolicyError("the server kept its prefix cache over a change of weights: requests were in flight")

    # ---- memory shared in time

    def sleep(self) -> None:
        """Give the GPU's memory back, weights kept in main memory. Raises PolicyError when the server cannot."""
        self._post("/sleep?level=1", {})
        if _parsed(self._call("GET", "/is_sleeping")).get("is_sleeping") is not True:
            raise PolicyError(
                "the server did not go to sleep: engine.sleep needs a GPU and a server started with "
                "--enable-sleep-mode and VLLM_SERVER_DEV_MODE=1; set engine.sleep to false to share the memory instead"
            )

    def wake(self) -> None:
        self._post("/wake_up", {})

    # ---- plumbing

    def _post(self, path: str, body: dict[str, Any]) -> bytes:
        return self._call("POST", path, body)

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> bytes:
        secure = self.url.startswith("https")
        try:
            with httpx.Client(base_url=self.url, timeout=CONTROL_SECONDS, trust_env=False, verify=secure) as session:
                response = session.request(method, path, json=body)
        except httpx.HTTPError as error:
            raise ServerBrokeError(f"the server at {self.url} does not answer {path}: {_words(error)}") from error
        self._check(response.status_code, response.content, path)
        return response.content

    def _check(self, status: int, reply: bytes, what: str) -> None:
        if status == httpx.codes.OK:
            return
        said = reply[:500].decode(errors="replace")
        if status == httpx.codes.NOT_FOUND and any(words in reply for words in (b"does not exist", b"cannot be found")):
            raise UnknownModelError(f"the server at {self.url} does not know the model: {said}")
        if status >= httpx.codes.INTERNAL_SERVER_ERROR:
            raise ServerBrokeError(f"the server at {self.url} failed ({status}, {what}): {said}")
        hint = "; start it with VLLM_SERVER_DEV_MODE=1" if status == httpx.codes.NOT_FOUND else ""
        raise PolicyError(f"the server at {self.url} refused ({status}, {what}): {said}{hint}")


async def within(seconds: float, coroutine: Any) -> Any:
    """The coroutine's result. Raises TimeoutError, the coroutine cancelled, when it takes longer."""
    async with asyncio.timeout(seconds):
        return await coroutine


def _parsed(reply: bytes) -> dict[str, Any]:
    try:
        tree = json.loads(reply)
    except (ValueError, RecursionError) as error:
        raise ServerBrokeError(f"the server's reply is not JSON: {error!s:.100}") from None
    if not isinstance(tree, dict):
        raise ServerBrokeError("the server's reply is not a JSON object")
    return tree


def _only_choice(reply: bytes) -> dict[str, Any]:
    choices = _parsed(reply).get("choices")
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        raise ServerBrokeError("the server's reply does not hold one completion")
    return choices[0]


def _are_ids(values: Any) -> TypeGuard[list[int]]:
    return isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)


def _are_logprobs(values: Any) -> TypeGuard[list[float]]:
    return isinstance(values, list) and all(
        isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) for value in values
    )


def _words(error: Exception) -> str:
    return f"{type(error).__name__} {error}".strip()[:200]
