"""What a world's own lists show to begin with: ids, addresses, paths and names, read by running its APIs.

A survey is programs like an agent's, run in a session of its own at the start state: they log in to one app and call
what reads without knowing anything, then, for kinds that nothing has shown yet, what needs one id. Nothing is taken
from the databases behind the APIs.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from coevolve_lab.environments.appworld.docs import Api
from coevolve_lab.environments.appworld.session import AppWorldSession

MOST_VALUES = 60  # kept of each kind
TRIED_IDS = 3  # of each kind, in the second look
ENOUGH = 2  # reads that show a kind; each costs 40 ms of CPU
_KINDS = re.compile(r"\w+_id|(?:\w+_)?email|phone_number|title|name|genre|label")
_PATH = re.compile(r"[~/][^\n]{0,200}")
# Reads that say nothing about what there is, or that write a file although they are a GET.
_UNINTERESTING = re.compile(r"show_account|show_profile|download_\w+|\w+_exists|\w+_count")


@dataclass
class Observed:
    """What one app showed. password: of the supervisor's account there; values: by kind, in the order of first sight.

    own: those of them that only the supervisor is shown, who may then change most of them. Kinds are the keys of the
    answers (song_id, email, title, ...), and file_path and directory_path.
    """

    username: str
    password: str
    values: dict[str, list[Any]] = field(default_factory=dict)
    own: dict[str, list[Any]] = field(default_factory=dict)

    def login(self, app: str) -> str:
        """An expression that logs in to ``app`` and yields the access token."""
        return f"apis.{app}.login(username={self.username!r}, password={self.password!r})['access_token']"

    def see(self, answer: Any, own: bool, parent: str = "") -> None:
        """Remember what an answer holds. An ``id`` in a list of songs is a song_id; what is nested is not one's own."""
        if isinstance(answer, Mapping):
            for key, value in answer.items():
                if key == "id" and parent:
                    self._add(f"{parent}_id", value, own=False)
                elif isinstance(value, str | int) and not isinstance(value, bool) and _KINDS.fullmatch(key):
                    self._add(key, value, own and not parent)
                self.see(value, own, key.removesuffix("s"))
        elif isinstance(answer, list):
            for item in answer:
                self.see(item, own, parent)
        elif isinstance(answer, str) and _PATH.fullmatch(answer):
            self._add("directory_path" if answer.endswith("/") else "file_path", answer, own)

    def _add(self, kind: str, value: Any, own: bool) -> None:
        for values in (self.values, self.own) if own else (self.values,):
            known = values.setdefault(kind, [])
            if value not in known and value != "" and len(known) < MOST_VALUES:
                known.append(value)


class Survey:
    """What was observed, by start state and app; each is looked at once, in a session that ``opened`` yields for it.

    The session is one of its own, so that what is seen depends on nothing but the start state.
    """

    def __init__(
        self,
        apis: Mapping[str, Api],
        opened: Callable[[Mapping[str, Any]], AbstractContextManager[AppWorldSession]],
    ) -> None:
        self._apis = apis
        self._opened = opened
        self._seen: dict[tuple[str, str], Observed | None] = {}
        self._lock = threading.Lock()

    def app(self, start: Mapping[str, Any], app: str) -> Observed | None:
        """What ``app`` shows at this start; None if the supervisor has no account there.

        Raises EnvironmentFailure when it cannot be looked at.
        """
        key = (str(start["task"]), app)
        with self._lock:
            if key not in self._seen:
                with self._opened(start) as session:
                    self._seen[key] = self._look(session, app)
            return self._seen[key]

    def _look(self, session: AppWorldSession, app: str) -> Observed | None:
        answers = _answers(session, ["apis.supervisor.show_account_passwords()"])
        accounts = answers[0] if answers and isinstance(answers[0], list) else []
        passwords = {account["account_name"]: account["password"] for account in accounts}
        if app not in passwords:
            return None
        person = session.supervisor
        seen = Observed(person["phone_number"] if app == "phone" else person["email"], passwords[app])
        reads = [api for api in self._apis.values() if api.app == app and api.reads]
        reads = [api for api in reads if not _UNINTERESTING.fullmatch(api.name)]
        offered: Counter[str] = Counter()  # kinds, by how many of the reads that are made show them
        for private in (True, False):
            chosen = []
            for api in reads:
                kinds = _kinds(api.returns)
                if not api.required() and _is_private(api) == private and any(offered[kind] < ENOUGH for kind in kinds):
                    chosen.append(_written(api))
                    offered.update(kinds)
            for answer in _answers(session, chosen, seen.login(app)):
                seen.see(answer, private)
        second = [
            _written(api, f"{needed.name}={value!r}")
            for api in reads
            if len(needs := api.required()) == 1
            and any(kind.endswith("_id") for kind in _kinds(api.returns) - set(offered))
            for needed in needs
            for value in (seen.own.get(needed.name) or seen.values.get(needed.name, []))[:TRIED_IDS]
        ]
        for answer in _answers(session, second, seen.login(app)):
            seen.see(answer, own=False)
        return seen


def _kinds(returned: Any, parent: str = "") -> set[str]:
    """Kinds of values that an answer of this shape shows."""
    shown = Observed("", "")
    shown.see(returned, own=False, parent=parent)
    return set(shown.values)


def _is_private(api: Api) -> bool:
    return any(p.name == "access_token" and p.required for p in api.parameters)


def _written(api: Api, *given: str) -> str:
    names = {parameter.name for parameter in api.parameters}
    more = ("page_limit=20" if "page_limit" in names else "", "access_token=token" if "access_token" in names else "")
    return f"apis.{api.app}.{api.name}({', '.join(filter(None, (*given, *more)))})"


def _answers(session: AppWorldSession, calls: Sequence[str], token: str = "None") -> list[Any]:
    """What the calls return, those left out that fail or whose answer was cut. token: an expression, made once."""
    if not calls or session.done:
        return []
    # the whole is one function, so that the agent's names stay as they are
    tries = "".join(f"    try: print(json.dumps({call}, default=str))\n    except Exception: pass\n" for call in calls)
    output = session.run(f"def _look():\n    import json\n    token = {token}\n{tries}_look()\n")
    answers = []
    for line in output.splitlines():
        try:
            answers.append(json.loads(line))
        except ValueError:
            continue
    return answers
