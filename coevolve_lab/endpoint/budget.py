"""What an evolution may use up at an endpoint, and what it has used."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """None: no limit. connections: calls in flight; retries: of one call, after 408, 409, 429, 5xx and lost
    connections; call_seconds: deadline of one call, retries included. seconds, tokens (prompt and completion) and cost
    are of one evolution: seconds in which at least one call is waited for, so that a person who looks at a stage's
    results uses up none; what is in flight when tokens or cost run out is still finished and paid.
    """

    connections: int = 32
    retries: int = 4
    call_seconds: float = 120.0
    seconds: float | None = None
    tokens: int | None = None
    cost: float | None = None


class Budget:
    """One evolution's account. ``exhausted`` names the limit that refused or ended a call first, "" while none has.

    Replayed calls count as if they were made now, so that a resumed evolution has no more to spend than the first try.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.exhausted = ""
        self.tokens = 0
        self.cost = 0.0
        self._seconds = 0.0
        self._waiting = 0
        self._since = 0.0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """While somebody waits for a call, the evolution's time runs."""
        if not self._waiting:
            self._since = time.monotonic()
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._seconds += time.monotonic() - self._since

    def check(self) -> str:
        """The limit that is used up ("deadline", "tokens", "cost"), or "" when another call may be made."""
        limits = self.limits
        reached = ""
        if limits.seconds is not None and self.seconds() >= limits.seconds:
            reached = "deadline"
        elif limits.tokens is not None and self.tokens >= limits.tokens:
            reached = "tokens"
        elif limits.cost is not None and self.cost >= limits.cost:
            reached = "cost"
        if reached:
            self.stop(reached)
        return reached

    def stop(self, reached: str) -> None:
        self.exhausted = self.exhausted or reached

    def spend(self, tokens: int, cost: float) -> None:
        self.tokens += tokens
        self.cost += cost

    def seconds(self) -> float:
        """Time used so far."""
        return self._seconds + (time.monotonic() - self._since if self._waiting else 0.0)

    def call_seconds(self) -> float:
        """How long a call that begins now may take: its own deadline, or what is left of the evolution's."""
        if self.limits.seconds is None:
            return self.limits.call_seconds
        return max(0.0, min(self.limits.call_seconds, self.limits.seconds - self.seconds()))
