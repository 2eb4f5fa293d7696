"""What one vLLM server holds of the policy: versions that arrive, are proven, are used by requests, and go.

Adapters come under names that are never used again: a name that is loaded twice has served another version's prefix
cache, or the base model (vllm#42125, #44950). Whole weights replace the base model's in place, and its prefix cache is
emptied and salted by version. Where that leaves some of the old weights in use, as vLLM 0.32 does on a CPU and beside
adapters, the proof refuses the version.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from coevolve_lab.config import EngineConfig
from coevolve_lab.errors import BackgroundError, PolicyError
from coevolve_lab.policy.adapters import ADAPTER
from coevolve_lab.policy.engine import Request
from coevolve_lab.policy.proof import TEMPERATURE, Proof, check_proof, check_sampled, largest_gap
from coevolve_lab.policy.vllm_client import Sampling, ServerBrokeError, VllmClient

PREFIX = "policy-v"  # of the adapters that engines load


@dataclass(frozen=True)
class Served:
    """A version that the server holds. name: the model to ask for; salt: what its prefix cache goes by, never reused.

    gap: the largest |server's - trainer's log-probability| on the fixed text.
    """

    version: int
    name: str
    salt: str
    folder: Path
    proof: Proof
    gap: float


@dataclass(frozen=True)
class Swap:
    """One arrival of a version. gap: as in ``Served``; moved: largest change of the trainer's own log-probabilities of
    the fixed text since the version before, 0 for the first."""

    version: int
    name: str
    seconds: float
    gap: float
    moved: float


class Versions:
    """base_name: what the server calls the model without adapters; None: it serves one, and that is it."""

    def __init__(self, client: VllmClient, base_name: str | None, config: EngineConfig) -> None:
        self.room = 0  # tokens of the longest conversation; 0: the server was not asked yet
        self.current: Served | None = None
        self._client = client
        self._base = base_name
        self._config = config
        self._loaded: dict[str, Path] = {}  # adapters of ours
        self._arriving: str | None = None
        self._users: Counter[str] = Counter()  # calls in flight by model name
        self._lock = threading.RLock()

    @property
    def folders(self) -> list[Path]:
        """Weights that are still needed: of adapters that the server holds, and of what a new one would get."""
        with self._lock:
            return [*self._loaded.values(), *([self.current.folder] if self.current else [])]

    def bring(self, version: int, folder: Path, proof: Proof) -> Swap:
        """Serve this version from now on; see ``VllmEngine.announce``."""
        started, before = time.monotonic(), self.current
        if not self.room:
            self._greet()
        take = self._load_adapter if (folder / ADAPTER).exists() else self._replace_weights
        try:
            arrived = take(version, folder, proof)
            with self._lock:
                self.current = arrived
        finally:
            self._arriving = None
            self._unload_unused()
        moved = largest_gap(proof.logprobs, before.proof.logprobs) if before is not None else 0.0
        return Swap(version, arrived.salt, time.monotonic() - started, arrived.gap, moved)

    @contextmanager
    def using(self) -> Iterator[Served]:
        """The present version, kept loaded meanwhile."""
        with self._lock:
            served = self.current
            if served is None:
                raise PolicyError("the server has no version of the policy yet: announce one first")
            self._users[served.name] += 1
        try:
            yield served
        finally:
            with self._lock:
                self._users[served.name] -= 1
            self._unload_unused()

    def _greet(self) -> None:
        """Learn what the server is, and leave none of an earlier engine's adapters in it."""
        models = self._client.models()
        bases = [name for name, model in models.items() if not model.get("parent")]
        if self._base is None and len(bases) == 1:
            self._base = bases[0]
        if self._base is None or self._base not in bases:
            wanted = "no single base model" if self._base is None else f"not {self._base!r}"
            raise BackgroundError(f"the server at {self._client.url} serves {sorted(models)}, {wanted}")
        for name in models:
            if name.startswith(PREFIX) and name != self._base:
                self._client.unload_adapter(name)
        room = models[self._base].get("max_model_len")
        self.room = room if isinstance(room, int) and room > 0 else self._config.max_model_len

    def _load_adapter(self, version: int, folder: Path, proof: Proof) -> Served:
        name = fresh_name(version, folder)
        self._client.load_adapter(name, folder.resolve())
        with self._lock:
            self._loaded[name] = folder
            self._arriving = name
        if name not in self._client.models():
            raise BackgroundError(f"the server took {name} and does not list it")
        return self._proven(Served(version, name, name, folder, proof, 0.0), self.current)

    def _replace_weights(self, version: int, folder: Path, proof: Proof) -> Served:
        if not any(folder.glob("*.safetensors")):  # a server that is sent there would be left without weights
            raise PolicyError(f"{folder} holds neither an adapter nor a model's weights")
        assert self._base is not None  # since the server was greeted
        with self._lock:
            if self._users[self._base] > 0:
                raise PolicyError("whole weights cannot be replaced while requests are in flight")
            before, self.current = self.current, None  # a failure leaves nothing that may be sampled from
        self._client.reload_weights(folder.resolve())
        salt = fresh_name(version, folder)
        return self._proven(Served(version, self._base, salt, folder, proof, 0.0), before)

    def _proven(self, arrived: Served, before: Served | None) -> Served:
        """``arrived`` with its gap. Raises BackgroundError when the server serves other weights."""
        proof = arrived.proof
        observed = self._client.prompt_logprobs(arrived.name, arrived.salt, proof.ids, proof.start)
        earlier, noise = (before.proof, before.gap) if before is not None else (None, 0.0)
        check_proof(arrived.version, proof, observed, self._config.proof_tolerance, earlier, noise)
        sampled = self._client.sample(
            Request("proof", proof.ids, 1), Sampling(arrived.name, arrived.salt, (), TEMPERATURE)
        )
        check_sampled(arrived.version, proof, sampled.ids[0], sampled.logprobs[0], self._config.proof_tolerance)
        gap = largest_gap(observed, proof.logprobs)
        return Served(arrived.version, arrived.name, arrived.salt, arrived.folder, proof, gap)

    def _unload_unused(self) -> None:
        with self._lock:
            kept = {name for name, users in self._users.items() if users > 0}
            kept |= {self.current.name} if self.current else set()
            unused = [name for name in self._loaded if name not in kept and name != self._arriving]
            for name in unused:
                del self._loaded[name]
        for name in unused:
            try:
                self._client.unload_adapter(name)
            except ServerBrokeError:
                return  # what broke has nothing loaded, and the next call finds out


def fresh_name(version: int, folder: Path) -> str:
    """A name that was never used: version, the hash that ends the folder's name, and six random digits.

    The random part keeps names apart from those of an earlier process whose adapters the server may remember.
    """
    return f"{PREFIX}{version:04d}-{folder.name.rpartition('-')[2]}-{secrets.token_hex(3)}"
