"""Playing BFCL solutions and perturbed solutions as text actions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from coevolve_lab.environments.bfcl.calls import Call, parse_call, render_call
from coevolve_lab.environments.bfcl.environment import BFCLEnvironment
from coevolve_lab.environments.bfcl.session import BFCLSession
from coevolve_lab.records import Task

Conversation = list[list[Call]]  # by user turn


def solution_calls(task: Task) -> Conversation:
    return [[parse_call(call) for call in turn] for turn in task.solution]


def as_python(calls: Sequence[Call]) -> str:
    return f"[{', '.join(render_call(call) for call in calls)}]"


def as_json(session: BFCLSession, calls: Sequence[Call]) -> str:
    """JSON names every argument, so positional ones get their names from the tool's schema."""
    properties = {tool["function"]["name"]: tool["function"]["parameters"]["properties"] for tool in session.tools}
    named = [
        Call(call.name, (), {**dict(zip(properties[call.name], call.args, strict=False)), **call.kwargs})
        for call in calls
    ]
    rows = [json.dumps({"name": call.name, "arguments": call.kwargs}) for call in named]
    return "\n".join(f"<tool_call>{row}</tool_call>" for row in rows)


def play(environment: BFCLEnvironment, task: Task, conversation: Conversation, in_json: bool = False) -> BFCLSession:
    """One action per user turn with all of its calls, then plain text; turns without calls get plain text only."""
    session = environment.open(task)
    for calls in conversation:
        if calls:
            session.step(as_json(session, calls) if in_json else as_python(calls))
        session.step("Done.")
    return session


def perturbed(conversation: Conversation) -> Iterator[tuple[str, Conversation]]:
    """Every conversation that differs from this one by one systematic change, with the kind of change."""
    for turn, calls in enumerate(conversation):
        for index, call in enumerate(calls):
            yield "dropped", _with_turn(conversation, turn, calls[:index] + calls[index + 1 :])
            yield "duplicated", _with_turn(conversation, turn, [*calls[: index + 1], *calls[index:]])
            if (changed := _altered(call, index)) is not None:
                yield "altered", _with_turn(conversation, turn, [*calls[:index], changed, *calls[index + 1 :]])
        if len(calls) > 1:
            yield "reordered", _with_turn(conversation, turn, calls[::-1])
            yield "reordered", _with_turn(conversation, turn, [*calls[1:], calls[0]])
        if calls:
            yield "emptied", _with_turn(conversation, turn, [])
        if calls and turn + 1 < len(conversation):
            later = [calls[-1], *conversation[turn + 1]]
            yield "delayed", _with_turn(_with_turn(conversation, turn, calls[:-1]), turn + 1, later)
            early = [*calls, *conversation[turn + 1]]
            yield "early", _with_turn(conversation, turn, early)


def _with_turn(conversation: Conversation, turn: int, calls: list[Call]) -> Conversation:
    return [*conversation[:turn], calls, *conversation[turn + 1 :]]


def _altered(call: Call, which: int) -> Call | None:
    """The call with one argument changed, counted through positional and named ones and round again."""
    if not (count := len(call.args) + len(call.kwargs)):
        return None
    which %= count
    if which < len(call.args):
        return Call(call.name, (*call.args[:which], _other(call.args[which]), *call.args[which + 1 :]), call.kwargs)
    name = list(call.kwargs)[which - len(call.args)]
    return Call(call.name, call.args, {**call.kwargs, name: _other(call.kwargs[name])})


def _other(value: object) -> object:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, list):
        return value[1:] if value else ["x"]
    return "x"
