"""The scripted explorer's part of AppWorld: calls that fit what was observed, and what a user would say for them.

Every call stands alone: it logs in by itself, with the password that the supervisor's app showed, and is one
expression. So a window of an exploration can be played from the start state without what came before it.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

from coevolve_lab.environments.appworld.docs import Api, Parameter
from coevolve_lab.environments.appworld.observed import Observed, Survey
from coevolve_lab.environments.appworld.session import AppWorldSession
from coevolve_lab.environments.programs import api_calls, api_name, parsed
from coevolve_lab.errors import ConfigError

ANSWER = "supervisor.complete_task"
# Accounts and credentials are left alone, and so is what needs a code or a file that no other API shows.
_LEFT_OUT = re.compile(
    r"(?:api_docs|supervisor|admin)\..*|.*\.(?:login|logout|signup|delete_account|update_account_name|verify_account"
    r"|reset_password|send_\w+_code|\w+_project_invite|apply_promo_code\w*|add_payment_card|\w+_attachment|download_\w+_receipt"
    r"|decompress_file|show_profile)"
)
_SPARE = re.compile(r"page_\w+|sort_by|pagination_order|overwrite|\w*access_token|\w+_paths?")
_OPTIONAL_SHARE = 0.3  # of the calls that need no optional argument have one all the same
_WORDS = ("garden", "winter", "coffee", "harbour", "lantern", "violet", "market", "ribbon", "summit", "copper")


class Walk:
    """Binds and phrases calls of one world's APIs. apps: those that it walks; None: all.

    ``tools``: what may be called, and the one tool that answers and ends a walk. Raises ConfigError for an unknown app.
    """

    def __init__(self, apis: Mapping[str, Api], survey: Survey, apps: Sequence[str] | None = None) -> None:
        known = {api.app for tool, api in apis.items() if not _LEFT_OUT.fullmatch(tool)}
        if apps is not None and (unknown := [app for app in apps if app not in known]):
            raise ConfigError(f"there is no app '{unknown[0]}' to walk; there is {', '.join(sorted(known))}")
        self._apis = apis
        walked = known if apps is None else set(apps)
        self._survey = survey
        self.tools = [tool for tool, api in apis.items() if api.app in walked and not _LEFT_OUT.fullmatch(tool)]
        self.tools.append(ANSWER)

    def confusable(self, tool: str) -> list[str]:
        """Tools of the same app that need the same arguments."""
        api = self._apis.get(tool)
        if api is None:
            return []
        return [t for t, o in self._apis.items() if t != tool and o.app == api.app and o.required() == api.required()]

    def bind(self, session: AppWorldSession, tool: str, rng: random.Random) -> str | None:
        """A program that calls ``tool``; None if nothing that was seen fits."""
        if session.done:
            return None
        if tool == ANSWER:
            return self._answer(session, rng)
        expression = self._expression(session, tool, rng)
        return expression and f"print({expression})"

    def phrase(self, call: str, rng: random.Random) -> str:
        """The API's own description with the arguments, or the call itself if it is none of a documented API."""
        tree = parsed(call)
        calls = [node for node in api_calls(tree) if not api_name(node).endswith(".login")] if tree else []
        if not calls:
            return call
        if api_name(calls[0]) == ANSWER and len(calls) > 1:
            return f"tell me the {_plain(_field(calls[0]))} that you find when you {self._sentence(calls[1], rng)}"
        return self._sentence(calls[0], rng)

    def _sentence(self, call: ast.Call, rng: random.Random) -> str:
        name = api_name(call)
        api = self._apis.get(name)
        told = api.description.split(". ")[0].rstrip(". ") if api else name
        told = told[:1].lower() + told[1:]
        given = [(k.arg, ast.unparse(k.value)) for k in call.keywords if k.arg and not k.arg.endswith("access_token")]
        arguments = ", ".join(f"{_plain(name)} {value}" for name, value in given)
        app = _plain(name.split(".")[0])
        return rng.choice((f"{told} in {app}", f"in {app}, {told}")) + (f" ({arguments})" if arguments else "")

    def _answer(self, session: AppWorldSession, rng: random.Random) -> str | None:
        """A program that completes the task with one field of what a reading API returns."""
        fields = {
            tool: [key for key, value in api.returns.items() if _tells(key, value)]
            for tool in self.tools
            if (api := self._apis.get(tool)) is not None and api.reads and isinstance(api.returns, Mapping)
        }
        offers = [tool for tool, keys in fields.items() if keys]
        if not offers:
            return None
        tool = rng.choice(offers)
        expression = self._expression(session, tool, rng)
        return expression and f"apis.{ANSWER}(answer={expression}[{rng.choice(fields[tool])!r}])"

    def _expression(self, session: AppWorldSession, tool: str, rng: random.Random) -> str | None:
        api = self._apis[tool]
        start = session.task.start
        seen = self._survey.app(start, api.app)
        if seen is None:
            return None
        given: dict[str, str] = {}
        for parameter in api.required():
            value = self._value(api, parameter, seen, rng)
            if value is None:
                return None
            given[parameter.name] = repr(value)
        spare = [p for p in api.parameters if not p.required and not _SPARE.fullmatch(p.name)]
        if spare and (api.name.startswith("update_") or rng.random() < _OPTIONAL_SHARE):
            parameter = rng.choice(spare)
            value = self._value(api, parameter, seen, rng)
            if value is not None:
                given[parameter.name] = repr(value)
            elif api.name.startswith("update_"):
                return None
        for parameter in api.parameters:
            if parameter.required and parameter.name.endswith("access_token"):
                app = parameter.name.removesuffix("access_token").rstrip("_") or api.app
                owner = self._survey.app(start, app)
                if owner is None:
                    return None
                given[parameter.name] = owner.login(app)
        return f"apis.{tool}({', '.join(f'{name}={value}' for name, value in given.items())})"

    def _value(self, api: Api, parameter: Parameter, seen: Observed, rng: random.Random) -> Any:
        """A value for one argument, None if nothing fits."""
        name = parameter.name
        if parameter.choices:
            return rng.choice(parameter.choices)
        if parameter.type == "boolean":
            return rng.random() < 0.5
        if name.endswith("_path"):
            return _path(api, name, seen, rng)
        if name.endswith("_id"):
            return _drawn(_ids(api, name, seen), rng)
        if name.endswith("email"):
            return _drawn(_emails(seen), rng)
        if name in ("phone_number", "genre"):
            return _drawn(seen.values.get(name, []), rng)
        if parameter.type in ("integer", "number"):
            least = int(parameter.least if parameter.least is not None else 1)
            most = int(parameter.most) if parameter.most is not None else least + 9
            return rng.randint(least, min(most, least + 99))
        return _text(name, parameter.type, seen, rng)


def _ids(api: Api, name: str, seen: Observed) -> list[Any]:
    """Ids that were seen under this name; else under a longer one that the API's own name holds (song_review_id).

    What changes something is given ids of the supervisor's own, if there are any.
    """
    for values in (seen.values,) if api.reads else (seen.own, seen.values):
        if name in values:
            return values[name]
        longer = [kind for kind in values if kind.endswith(f"_{name}") and kind.removesuffix("_id") in api.name]
        if longer:
            return [value for kind in longer for value in values[kind]]
    return []


def _emails(seen: Observed) -> list[Any]:
    return [value for kind, values in seen.values.items() if kind.endswith("email") for value in values]


def _path(api: Api, name: str, seen: Observed, rng: random.Random) -> str | None:
    folders = seen.values.get("directory_path", [])
    files = seen.values.get("file_path", [])
    made = name.startswith(("destination", "compressed", "decompressed")) or api.name.startswith("create_")
    if not made:
        return _drawn(folders if "directory" in name else files, rng)
    folder = _drawn(folders, rng)
    if folder is None:
        return None
    ending = "/" if "directory" in name else ".zip" if "compressed" in name else ".txt"
    return f"{folder}{rng.choice(_WORDS)}{ending}"


def _text(name: str, kind: str, seen: Observed, rng: random.Random) -> Any:
    if kind.startswith("list") and "email" in name:
        known = _emails(seen)
        return [rng.choice(known)] if known else None
    if kind.startswith("list"):
        days = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
        return [rng.choice(days if "days" in name else _WORDS)]
    if name == "time":
        return f"{rng.randint(0, 23):02}:{rng.randint(0, 59):02}"
    if "date" in name or name.endswith("_at"):
        return f"2023-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}" + "T09:00:00" * ("datetime" in name)
    if name in ("query", "substring"):
        known = [value for kind in ("title", "name", "label") for value in seen.values.get(kind, [])]
        return _drawn([word for value in known for word in str(value).split() if word.isalpha()], rng)
    if "code" in name or "password" in name:
        return None
    return " ".join(rng.sample(_WORDS, 2))


def _drawn(values: Sequence[Any], rng: random.Random) -> Any:
    return rng.choice(values) if values else None


def _tells(key: str, value: Any) -> bool:
    """Whether a field is something that a user could ask for."""
    return (
        isinstance(value, str | int | float)
        and not isinstance(value, bool)
        and not re.search(r"_id$|^message$|_at$", key)
    )


def _field(answer: ast.Call) -> str:
    """The field that an answer reads, "answer" if there is none."""
    keys = [node.slice for node in ast.walk(answer) if isinstance(node, ast.Subscript)]
    texts = [key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
    return next((text for text in texts if text != "access_token"), "answer")


def _plain(name: Any) -> str:
    return str(name).replace("_", " ")
