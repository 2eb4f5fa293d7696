"""A task with its solution, or a trajectory, as OpenAI-style messages; and turns and solution back from messages.

An assistant message has ``tool_calls`` if its action can be said as such: every call readable, every argument named (by
the tools' schemas, where it was given by position). Any other action stays text. What the environment answers to calls
are ``tool`` messages; what it answers to text that it could not read is a ``user`` message of name "environment", so
that nobody takes it for the user. Messages are a view: the exact actions are exported beside them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from coevolve_lab.environments.bfcl.calls import Call, MalformedAction, parse_action, render_call
from coevolve_lab.evolution.replaying import PlayedCall
from coevolve_lab.evolution.validation import END_OF_TURN
from coevolve_lab.records import Step, Task, Trajectory

Message = dict[str, Any]
Tools = Sequence[Mapping[str, Any]]
ENVIRONMENT = "environment"  # name of user messages that no user wrote

_THINK = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)
_TAG, _END_TAG = "<tool_call>", "</tool_call>"


class UnreadableMessages(ValueError):
    """Messages that hold no task. The message says which one, and why."""


def task_messages(
    task: Task, tools: Tools = (), played: Sequence[PlayedCall] | None = None, system: str | None = None
) -> list[Message]:
    """The user's turns, each with the calls that solve it and a closing word, as validation plays it.

    tools: schemas that name positional arguments. played: the replay of the solution, as far as it came; without it,
    and beyond it, calls have no results. system: text of a system message that goes first.
    """
    said = _Conversation(system)
    results = iter(played or ())
    for turn, calls in zip(task.turns, [*task.solution, *[()] * len(task.turns)], strict=False):
        said.user(turn)
        for call in calls:
            result = next(results, None)
            if (named := read_calls(call, tools)) is not None:
                said.calls(call, named, None if result is None else _whole(result.observation))
                continue
            said.assistant(call)
            if result is not None and result.failed:
                said.environment(_whole(result.observation))
        if calls:
            said.assistant(END_OF_TURN)
    return said.messages


def trajectory_messages(
    trajectory: Trajectory, task: Task, tools: Tools = (), system: str | None = None
) -> list[Message]:
    """The episode as it was played. An action becomes tool calls only if they are the calls that the environment read
    (``Step.tools``). It may end with a message of user or environment that was no longer answered."""
    said = _Conversation(system)
    said.user(task.turns[0] if task.turns else "")
    for step, later in pairwise([*trajectory.steps, None]):
        assert step is not None
        named = read_calls(step.action, tools) if step.tools else None
        if named is not None and tuple(name for name, _ in named) == step.tools:
            said.calls(step.action, named, step.observation)
            continue
        said.assistant(step.action)
        if step.observation:
            (said.user if _ends_turn(step, later) else said.environment)(step.observation)
    return said.messages


def turns_and_solution(messages: Iterable[Any]) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """The user's turns and, for each, its calls as text, from messages that anybody may have written.

    Assistant text, tool results and system messages are left out. Raises UnreadableMessages.
    """
    turns: list[str] = []
    solution: list[list[str]] = []
    for number, message in enumerate(messages):
        role = message.get("role") if isinstance(message, Mapping) else None
        if role == "user":
            if message.get("name") != ENVIRONMENT:
                turns.append(_text(message.get("content"), number))
                solution.append([])
        elif role == "assistant":
            calls = message.get("tool_calls") or []
            if not isinstance(calls, list):
                raise UnreadableMessages(f"[{number}].tool_calls is no list")
            if calls and not turns:
                raise UnreadableMessages(f"[{number}] calls a tool before any user message")
            for call in calls:
                solution[-1].append(_rendered(call, number))
        elif role not in ("system", "developer", "tool"):
            raise UnreadableMessages(f"[{number}].role is {str(role)[:40]!r}; roles are system, user, assistant, tool")
    return tuple(turns), tuple(map(tuple, solution))


def read_calls(action: str, tools: Tools = ()) -> list[tuple[str, dict[str, Any]]] | None:
    """Names and named arguments of an action's calls; None if it has none, or cannot be said as tool calls."""
    try:
        calls = parse_action(action)
    except MalformedAction:
        return None
    named = [(call.name, _named(call, tools)) for call in calls]
    complete = [(name, arguments) for name, arguments in named if arguments is not None]
    return complete if complete and len(complete) == len(named) else None


class _Conversation:
    """Messages being written; call ids count through the conversation."""

    def __init__(self, system: str | None) -> None:
        self.messages: list[Message] = [] if system is None else [{"role": "system", "content": system}]
        self._called = 0

    def user(self, text: str) -> None:
        self.messages.append({"role": "user", "content": text})

    def environment(self, text: str) -> None:
        self.messages.append({"role": "user", "name": ENVIRONMENT, "content": text})

    def assistant(self, text: str) -> None:
        self.messages.append({"role": "assistant", "content": text})

    def calls(self, action: str, named: Sequence[tuple[str, dict[str, Any]]], reply: str | None) -> None:
        """One message with all calls of an action, then a message for each result if they are known."""
        ids = [f"call_{self._called + i}" for i in range(len(named))]
        self._called += len(named)
        tool_calls = [
            {"id": ident, "type": "function", "function": {"name": name, "arguments": _json(arguments)}}
            for ident, (name, arguments) in zip(ids, named, strict=True)
        ]
        self.messages.append({"role": "assistant", "content": _around(action), "tool_calls": tool_calls})
        if reply is not None:
            self.messages += [
                {"role": "tool", "tool_call_id": ident, "content": text}
                for ident, text in zip(ids, _results(reply, len(ids)), strict=True)
            ]


def _ends_turn(step: Step, later: Step | None) -> bool:
    """Whether the answer to a step without readable calls is the user's next turn."""
    return not (step.tools or step.failed) if later is None else later.turn > step.turn


def _results(reply: str, calls: int) -> list[str]:
    """A reply to several calls has a line for each. Where the lines do not tell them apart, because a result has
    several itself, the last call gets all of it and the others nothing."""
    lines = reply.split("\n")
    if calls > 1 and len(lines) == calls:
        return lines
    return [*[""] * (calls - 1), reply]


def _named(call: Call, tools: Tools) -> dict[str, Any] | None:
    """Arguments by name; None where a position has no name, or a name two values."""
    if not call.args:
        return call.kwargs
    schema: Mapping[str, Any] = next((t["function"] for t in tools if t["function"]["name"] == call.name), {})
    names = list(schema.get("parameters", {}).get("properties", {}))[: len(call.args)]
    if len(names) < len(call.args) or set(names) & set(call.kwargs):
        return None
    return {**dict(zip(names, call.args, strict=True)), **call.kwargs}


def _around(action: str) -> str:
    """What was said beside the calls of a readable action: thoughts, and text around JSON blocks."""
    thoughts, rest = "".join(_THINK.findall(action)), _THINK.sub("", action)
    if _TAG not in rest:
        return thoughts.strip()
    return (thoughts + "".join(_outside(rest))).strip()


def _outside(text: str) -> Iterator[str]:
    decoder, end = json.JSONDecoder(), 0
    while (start := text.find(_TAG, end)) >= 0:
        yield text[end:start]
        body = start + len(_TAG)
        body += len(text[body:]) - len(text[body:].lstrip())
        end = decoder.raw_decode(text, body)[1]  # it was read before: it is JSON
        closing = len(text[end:]) - len(text[end:].lstrip()) + end
        if text.startswith(_END_TAG, closing):
            end = closing + len(_END_TAG)
    yield text[end:]


def _rendered(call: Any, number: int) -> str:
    """A tool call as Python text, read by the same rules as a model's."""
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise UnreadableMessages(f'[{number}].tool_calls needs {{"function": {{"name": ..., "arguments": ...}}}}')
    arguments = function.get("arguments")
    name, told = function["name"], f"[{number}].tool_calls: {function['name'][:80]!r}: "
    try:
        given = arguments if isinstance(arguments, str) else _json(arguments or {})
        parsed = parse_action(f'{_TAG}{{"name": {_json(name)}, "arguments": {given or "{}"}}}{_END_TAG}')
    except (MalformedAction, TypeError, ValueError, RecursionError) as problem:
        raise UnreadableMessages(told + str(problem)[:200]) from None
    if len(parsed) != 1 or parsed[0].name != name:
        raise UnreadableMessages(f"{told}its arguments hold another call")
    return render_call(parsed[0])


def _text(content: Any, number: int) -> str:
    if not isinstance(content, str):
        raise UnreadableMessages(f"[{number}].content has to be text, not {type(content).__name__}")
    return content


def _whole(text: str) -> str:
    """``text`` without halves of characters, which no file can hold; what a run has stored has none."""
    return text.encode(errors="replace").decode()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
