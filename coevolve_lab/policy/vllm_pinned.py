"""One version of the policy for as long as somebody samples from it, whatever is announced meanwhile.

What samples ahead while the policy trains needs this: an engine brings a new version when it is next asked, and for
that it exports the model, which must not happen while the model changes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack

from coevolve_lab.errors import PolicyError
from coevolve_lab.policy.engine import Completion, Request
from coevolve_lab.policy.vllm_client import ServerBrokeError
from coevolve_lab.policy.vllm_versions import Served

Sample = Callable[[Served, Sequence[Request], float, int], list[Completion]]


class Pinned:
    """An ``Engine`` of one version, made by ``VllmEngine.pin`` and used in any one thread.

    held: keeps the server from unloading the version. spoiled: why nothing more is sampled, if so: it was recalled, or
    the server broke, which is not mended here, for that may export the model as well: the engine's next call does it.
    """

    def __init__(
        self,
        served: Served,
        held: ExitStack,
        admit: Callable[[set[str]], None],
        sample: Sample,
        release: Callable[[Iterable[str]], None],
    ) -> None:
        self.policy_version = served.version
        self.spoiled = ""
        self._served, self._held = served, held
        self._admit, self._sample, self._release = admit, sample, release
        self._keys: set[str] = set()  # of all episodes that asked
        self._lock = threading.Lock()

    def generate(self, requests: Sequence[Request], temperature: float, seed: int) -> list[Completion]:
        """See ``VllmEngine.generate``. Raises PolicyError once it is spoiled."""
        if not requests:
            return []
        keys = {request.key for request in requests}
        with self._lock:
            if self.spoiled:
                raise PolicyError(self.spoiled)
            self._keys |= keys
            self._admit(keys)
        try:
            return self._sample(self._served, requests, temperature, seed)
        except ServerBrokeError as error:
            self.spoiled = str(error)
            raise

    def release(self, keys: Iterable[str]) -> None:
        """See ``VllmEngine.release``."""
        self._release(keys)

    def recall(self) -> None:
        """Abort what is in flight, and sample nothing more. From any thread."""
        with self._lock:
            self.spoiled, keys = self.spoiled or "it was recalled", set(self._keys)
        self._release(keys)

    def let_go(self) -> None:
        """The server may unload the version once it is not the present one any more."""
        self._held.close()
