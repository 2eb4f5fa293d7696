"""Sampling by a vLLM server: each version of the policy under a name of its own, proven before anything is sampled.

A new version is exported, loaded, listed and proven by the first call that samples after it: an update that is
interrupted leaves nothing half done, and a server that sleeps while the trainer works is woken once. When the server
dies it is started again, gets the present version back, and the call that it died in is made again.

What breaks one call is a PolicyError, an episode's end. A server that does not serve what it should, or cannot be
started again, is a BackgroundError and stops the run: going on would train on nothing, or on another policy's tokens.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from coevolve_lab.config import EngineConfig
from coevolve_lab.endpoint.asynchronous import run_async
from coevolve_lab.errors import BackgroundError, CoEvolveError, PolicyError
from coevolve_lab.policy.engine import Completion, Request
from coevolve_lab.policy.proof import Proof
from coevolve_lab.policy.vllm_client import (
    Sampling,
    ServerBrokeError,
    UnknownModelError,
    VllmClient,
    completion_body,
    read_completion,
    within,
)
from coevolve_lab.policy.vllm_pinned import Pinned
from coevolve_lab.policy.vllm_versions import Served, Swap, Versions

T = TypeVar("T")
Export = Callable[[Sequence[Path]], tuple[Path, Proof]]
ABANDONED = Completion((), (), False)


class VllmEngine:
    """See ``Engine``; may be called from several threads. One engine a server, one server a run.

    base_name: what the server calls the model without adapters; None: it serves one, and that is it. restart: starts
    the server anew and returns its url; without it a broken server is an error at once. restarts, missed, swaps: how
    often that happened, how many requests ran out of ``config.request_seconds``, how many versions arrived.
    """

    def __init__(
        self,
        url: str,
        base_name: str | None,
        end_ids: Sequence[int],
        config: EngineConfig,
        restart: Callable[[], str] | None = None,
    ) -> None:
        self.policy_version = 0
        self.restarts = 0
        self.missed = 0
        self.swaps = 0
        self.last_swap: Swap | None = None
        self._client = VllmClient(url)
        self._versions = Versions(self._client, base_name, config)
        self._base = base_name
        self._end_ids = tuple(end_ids)
        self._config = config
        self._restart = restart
        self._pending: tuple[int, Export] | None = None
        self._asleep = False
        self._open: set[str] = set()  # episodes that have asked and were not released
        self._flights: dict[str, tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = {}
        self._lock = threading.RLock()  # which episodes there are, and what is in flight for them
        self._changing = threading.RLock()  # held while a version arrives, or the server starts again

    # ---- sampling

    def generate(self, requests: Sequence[Request], temperature: float, seed: int) -> list[Completion]:
        """See ``Engine``. A request that misses its deadline, or was released meanwhile, comes back empty and cut."""
        if not requests:
            return []
        self._admit({r.key for r in requests})

        def ask() -> list[Completion]:
            with self._using() as served:
                return self._sample(served, requests, temperature, seed)

        return self._mending(ask)

    def pin(self) -> Pinned:
        """An engine of the version that is announced now, which arrives first if it has not: what this does to the
        model is done when it returns, and the model may change from then on. See ``Pinned``."""

        def hold() -> tuple[Served, ExitStack]:
            with ExitStack() as stack:
                return stack.enter_context(self._using()), stack.pop_all()

        served, held = self._mending(hold)
        return Pinned(served, held, self._admit, self._sample, self.release)

    def release(self, keys: Iterable[str]) -> None:
        """These episodes are over: what is in flight for them is aborted. With ``config.sleep`` the server sleeps once
        no episode is left. Raises PolicyError when it cannot."""
        gone = set(keys)
        with self._lock:
            self._open -= gone
            for key in gone & self._flights.keys():
                loop, task = self._flights[key]
                loop.call_soon_threadsafe(task.cancel)
            idle = not self._open
        if idle and self._config.sleep:
            self.sleep()

    def logprobs(self, ids: Sequence[int], start: int) -> list[float]:
        """The served version's log-probabilities of ``ids[start:]`` at temperature 1."""

        def ask() -> list[float]:
            with self._using() as served:
                return self._client.prompt_logprobs(served.name, served.salt, ids, start)

        return self._mending(ask)

    # ---- versions

    def announce(self, version: int, folder: Path, proof: Proof) -> None:
        """Serve this version from now on: an adapter's folder, or a whole model's whose weights replace the base's.

        Loaded under a name never used before, listed, and its log-probabilities of the fixed text compared with the
        trainer's; then it is switched to, and versions that no request in flight names are unloaded. Raises
        BackgroundError when the server does not serve these weights: the version before it goes on being served, if it
        was an adapter.
        """
        with self._changing:
            self._pending = None
            self._mending(lambda: self._bring(version, folder, proof))
            self.policy_version = version

    def announce_on_demand(self, version: int, export: Export) -> None:
        """``announce`` what ``export`` returns, before anything more is sampled. The model may not change until then.

        It is given the folders of weights that are still needed. Nothing is asked of the server here, and of several
        versions that nobody samples from only the last arrives.
        """
        with self._changing:
            self._pending = (version, export)
            self.policy_version = version

    @property
    def folders(self) -> list[Path]:
        """Weights that are still needed: of adapters that the server holds, and of what a restarted one would get."""
        return self._versions.folders

    # ---- one GPU shared in time

    def sleep(self) -> None:
        """Have the server give its memory back until the next call. Raises PolicyError when it stays awake."""
        with self._changing:
            if self._asleep:
                return
            try:
                self._client.sleep()
            except ServerBrokeError as error:
                if not self._client.alive():
                    return  # it holds no memory, and the next call starts it again
                raise PolicyError(f"the server did not go to sleep: {error}") from error
            self._asleep = True

    def wake(self) -> None:
        """Have the server take its memory again."""
        with self._changing:
            if self._asleep:
                _give_back_unused()
                self._client.wake()
                self._asleep = False

    # ---- plumbing: requests

    def _admit(self, keys: set[str]) -> None:
        """These episodes ask, and until they are released they may have something in flight."""
        with self._lock:
            self._open |= keys

    def _sample(self, served: Served, requests: Sequence[Request], temperature: float, seed: int) -> list[Completion]:
        sampling = Sampling(served.name, served.salt, self._end_ids, temperature)
        outcomes = run_async(self._fly(requests, sampling, seed))
        late = [request.key for request, one in zip(requests, outcomes, strict=True) if isinstance(one, TimeoutError)]
        if late and len(late) == len(requests):
            raise ServerBrokeError(f"none of {len(late)} requests was answered in {self._config.request_seconds} s")
        if late:
            with self._lock:
                self.missed += len(late)
            warnings.warn(
                f"{len(late)} of {len(requests)} actions took longer than engine.request_seconds "
                f"({self._config.request_seconds}) and were given up: {', '.join(late[:3])}",
                stacklevel=2,
            )
        given_up = Completion((), (), False, f"not answered in {self._config.request_seconds} s")
        return [
            one if isinstance(one, Completion) else given_up if isinstance(one, TimeoutError) else ABANDONED
            for one in outcomes
        ]

    async def _fly(
        self, requests: Sequence[Request], sampling: Sampling, seed: int
    ) -> list[Completion | BaseException]:
        """All requests at once: completions, and TimeoutErrors and CancelledErrors. Other errors are raised."""
        async with self._client.open() as session:
            tasks = [asyncio.create_task(self._one(session, request, sampling, seed)) for request in requests]
            loop = asyncio.get_running_loop()
            flights = {request.key: (loop, task) for request, task in zip(requests, tasks, strict=True)}
            with self._lock:
                self._flights.update(flights)
                released = [task for key, (_, task) in flights.items() if key not in self._open]
            for task in released:  # before it was in flight
                task.cancel()
            try:
                outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            finally:
                with self._lock:
                    for key, flight in flights.items():
                        if self._flights.get(key) is flight:
                            del self._flights[key]
        for outcome in outcomes:
            if isinstance(outcome, BaseException) and not isinstance(outcome, TimeoutError | asyncio.CancelledError):
                raise outcome
        return outcomes

    async def _one(self, session: Any, request: Request, sampling: Sampling, seed: int) -> Completion:
        max_tokens = min(request.max_tokens, self._versions.room - len(request.ids))
        if max_tokens < 1:
            return ABANDONED  # no room for an action: the episode is cut, as at its own limit of tokens
        body = completion_body(request, sampling, request_seed(seed, request.key), max_tokens)
        limit = (1 << 20) + 1024 * max_tokens + 16 * len(request.ids)
        reply = await within(self._config.request_seconds, self._client.complete(session, body, limit))
        return read_completion(reply, request, sampling.end_ids, max_tokens)

    # ---- plumbing: the server

    @contextmanager
    def _using(self) -> Iterator[Served]:
        """The version to sample from, brought first if it has not arrived."""
        with self._changing:
            self.wake()
            self._bring_pending()
            versions = self._versions
        with versions.using() as served:
            yield served

    def _bring_pending(self) -> None:
        if self._pending is not None:
            version, export = self._pending
            self._bring(version, *export(self.folders))
            self._pending = None

    def _bring(self, version: int, folder: Path, proof: Proof) -> None:
        self.wake()
        self.last_swap = self._versions.bring(version, folder, proof)
        self.swaps += 1

    def _mending(self, attempt: Callable[[], T]) -> T:
        """What ``attempt`` returns; once, a server that broke meanwhile is mended and the attempt made again."""
        before = self._versions
        try:
            return attempt()
        except ServerBrokeError as error:
            with self._changing:
                if self._versions is before:  # else another thread has mended it
                    self._mend(error)
            return attempt()

    def _mend(self, error: ServerBrokeError) -> None:
        """A server that holds the present version again: a new one, or the same that had lost the adapter."""
        url = self._client.url
        if not isinstance(error, UnknownModelError):
            if self._restart is None:
                raise BackgroundError(f"{error}; engine.url joined this server: start it again, and go on with the run")
            try:
                url = self._restart()
            except CoEvolveError as failure:
                raise BackgroundError(f"{error}; and it could not be started again: {failure}") from failure
        self.restarts += 1
        lost, self._client, self._asleep = self._versions.current, VllmClient(url), False
        self._versions = Versions(self._client, self._base, self._config)
        try:
            if self._pending is None and lost is not None:
                self._bring(lost.version, lost.folder, lost.proof)
            self._bring_pending()
        except ServerBrokeError as again:
            raise BackgroundError(f"{error}; and once started again: {again}") from again
        finally:
            self._versions.current = self._versions.current or lost


def _give_back_unused() -> None:
    """Memory that this process' allocator keeps from the last update: the server needs it to wake."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def request_seed(seed: int, key: str) -> int:
    """The seed of one episode's action, by its name: the episodes of a group draw apart, and a call that is made again
    draws the same."""
    return int.from_bytes(hashlib.sha256(f"{seed}\x1f{key}".encode()).digest()[:8], "big") >> 1
