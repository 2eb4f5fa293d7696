"""The recording of all traffic of a run: one JSON line an exchange, so that nothing that was paid for is asked again.

A line holds the key, what it was for, the messages that were new in it, and the reply. Keys to endpoints, headers and
addresses are never in it. A process that is killed leaves at most a torn last line, which is dropped.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coevolve_lab.endpoint.exchange import Exchange, Prompt
from coevolve_lab.errors import StoreError

REUSABLE = {"ok", "refused", "empty", "malformed", "cut"}  # answers, as opposed to failures to get one


def prompt_key(prompt: Prompt) -> str:
    """One key for one question: what it is for, the model, all that is sent and how it is sampled."""
    asked = [prompt.role, prompt.subject, prompt.model, prompt.messages, prompt.schema, prompt.tools]
    text = json.dumps([*asked, prompt.temperature, prompt.max_tokens], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


class Cassette:
    """Replies by key, on disk; only their places are in memory. The file is made when the first is added.

    replay_only: nothing is added, nobody may be asked, and failures that were recorded are given back too, so that the
    whole goes as it went then. Otherwise failures are only noted: who asks again gets another try. Raises StoreError
    when the file is not a recording, or (replay_only) does not exist.
    """

    def __init__(self, path: Path, replay_only: bool = False) -> None:
        self.path = Path(path)
        self.replay_only = replay_only
        self._places: dict[str, tuple[int, int, bool]] = {}  # key: offset, length, reusable
        self._end = self._lines = 0
        if replay_only and not self.path.is_file():
            raise StoreError(f"{self.path} does not exist: explorer.cassette names a recording to replay")
        if self.path.is_file():
            self._index()

    def __len__(self) -> int:
        return len(self._places)

    def find(self, key: str) -> Exchange | None:
        """The recorded exchange that may stand for asking again."""
        place = self._places.get(key)
        if place is None or not (place[2] or self.replay_only):
            return None
        with self.path.open("rb") as file:
            file.seek(place[0])
            line = json.loads(file.read(place[1]))
        return Exchange.from_line(line["reply"])

    def add(self, key: str, prompt: Prompt, exchange: Exchange, secrets: Sequence[str] = ()) -> None:
        """Record an exchange. Every secret is blotted out wherever it occurs."""
        line: Mapping[str, Any] = {
            "key": key,
            "role": prompt.role,
            "subject": prompt.subject,
            "model": prompt.model,
            "messages": prompt.new_messages(),
            "reply": exchange.to_line(),
        }
        text = json.dumps(line)
        for secret in secrets:
            text = text.replace(json.dumps(secret)[1:-1], "[key]")
        data = text.encode() + b"\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            if file.tell() != self._end:
                self._index()  # what somebody else has added meanwhile
                file.truncate(self._end)  # a line torn by a kill
            file.write(data)
        self._remember(key, len(data), exchange.status)

    def _index(self) -> None:
        with self.path.open("rb") as file:
            file.seek(self._end)
            for data in file:
                if not data.endswith(b"\n"):
                    return
                try:
                    line = json.loads(data)
                    self._remember(line["key"], len(data), Exchange.from_line(line["reply"]).status)
                except (ValueError, KeyError, TypeError) as error:
                    raise StoreError(
                        f"line {self._lines + 1} of {self.path} is not a recorded exchange ({error}); delete that line "
                        "(its question is then asked again) or name another recording"
                    ) from error

    def _remember(self, key: str, length: int, status: str) -> None:
        """A failure never hides an answer to the same question."""
        reusable = status in REUSABLE
        if reusable or not self._places.get(key, (0, 0, False))[2]:
            self._places[key] = (self._end, length, reusable)
        self._end += length
        self._lines += 1
