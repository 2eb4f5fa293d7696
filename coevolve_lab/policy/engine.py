"""What rollouts need of a policy engine: token ids in, sampled token ids and their log-probabilities out.

One implementation samples in this process (torch_engine.py). A server engine has the same surface: it receives the full
conversation as ids, and keeps or finds its own prefix cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Request:
    """The next action of one episode. ids: the whole conversation so far; key: the episode, for the engine's cache."""

    key: str
    ids: Sequence[int]
    max_tokens: int


@dataclass(frozen=True)
class Completion:
    """Sampled ids, the end token included when it was sampled, and the log-probability of each at the temperature."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finished: bool  # False: cut at max_tokens
    failure: str = ""  # why there is no action: the engine gave the request up


class Engine(Protocol):
    """Samples from one version of the policy at a time."""

    policy_version: int

    def generate(self, requests: Sequence[Request], temperature: float, seed: int) -> list[Completion]:
        """One completion a request, in order. temperature 0 is greedy. Same inputs and seed, same output.

        Raises PolicyError when the engine broke; what the model wrote never raises.
        """
        ...

    def release(self, keys: Iterable[str]) -> None:
        """These episodes are over: their cached state may go."""
        ...
