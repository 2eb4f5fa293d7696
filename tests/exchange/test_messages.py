"""Messages say what was done, nothing more, and hold the task again."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from coevolve_lab.environments import Environment
from coevolve_lab.environments.bfcl.calls import parse_action
from coevolve_lab.evolution.replaying import PlayedCall, replay_solution
from coevolve_lab.exchange.messages import (
    UnreadableMessages,
    read_calls,
    task_messages,
    trajectory_messages,
    turns_and_solution,
)
from coevolve_lab.records import Step, Task, Trajectory

TOOLS = [{"type": "function", "function": {"name": "sort", "parameters": {"properties": {"file_name": {}}}}}]


def task(*turns: str, solution: tuple[tuple[str, ...], ...] = ()) -> Task:
    return Task("t", "bfcl", turns, {}, solution)


def episode(*steps: Step) -> Trajectory:
    return Trajectory("t", "t", "g", 0, 0, 0, 0.0, "completed", steps)


def called(name: str, call_id: str, **arguments: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
    return {"id": call_id, "type": "function", "function": function}


def test_a_replayed_official_case_is_a_whole_conversation(bfcl: Environment) -> None:
    case = bfcl.tasks("test")[0]
    tools = bfcl.open(case).tools
    messages = task_messages(case, tools, replay_solution(bfcl, case).calls, system="Act.")
    assert messages[0] == {"role": "system", "content": "Act."}
    assert [m["content"] for m in messages if m["role"] == "user"] == list(case.turns)
    asked = [call["id"] for m in messages for call in m.get("tool_calls", ())]
    answered = [m["tool_call_id"] for m in messages if m["role"] == "tool"]
    assert asked == answered == [f"call_{i}" for i in range(sum(map(len, case.solution)))]
    by_position = next(c for m in messages for c in m.get("tool_calls", ()) if c["function"]["name"] == "sort")
    assert by_position["function"]["arguments"] == '{"file_name": "final_report.pdf"}'
    assert messages[-1] == {"role": "assistant", "content": "Done."}


def test_messages_hold_the_calls_of_every_official_case_again(bfcl: Environment) -> None:
    by_position: list[tuple[Task, Task]] = []
    for case in bfcl.tasks("test"):
        turns, solution = turns_and_solution(task_messages(case, bfcl.open(case).tools))
        assert turns == case.turns
        if any(parse_action(call)[0].args for calls in case.solution for call in calls):
            by_position.append((case, replace(case, solution=solution)))
        for exported, original in zip(solution, case.solution, strict=True):
            for back, call in zip(exported, original, strict=True):
                (a,), (b,) = parse_action(back), parse_action(call)
                assert a.name == b.name
                assert [*a.args, *a.kwargs.values()] == json.loads(json.dumps([*b.args, *b.kwargs.values()]))
    assert len(by_position) > 20
    for case, again in by_position:  # the schemas name positions as the functions do
        results = [[played.observation for played in replay_solution(bfcl, it).calls] for it in (case, again)]
        assert results[0] == results[1]


def test_without_schemas_a_positional_argument_keeps_the_call_text() -> None:
    assert read_calls("sort('a.txt')") is None
    assert read_calls("sort('a.txt')", TOOLS) == [("sort", {"file_name": "a.txt"})]
    assert read_calls("sort('a.txt', file_name='b')", TOOLS) is None
    assert read_calls("sort('a.txt', 'b')", TOOLS) is None
    said = task_messages(task("go", solution=(("sort('a.txt')",),)))
    assert said[1] == {"role": "assistant", "content": "sort('a.txt')"}


def test_calls_of_one_action_are_answered_one_by_one_where_lines_tell() -> None:
    two = Step(0, "[a(x=1), b()]", "one\ntwo", ("a", "b"))
    three = Step(0, "[a(x=1), b()]", "one\nof two lines\ntwo", ("a", "b"))
    messages = trajectory_messages(episode(two, three), task("go"))
    assert messages == [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "", "tool_calls": [called("a", "call_0", x=1), called("b", "call_1")]},
        {"role": "tool", "tool_call_id": "call_0", "content": "one"},
        {"role": "tool", "tool_call_id": "call_1", "content": "two"},
        {"role": "assistant", "content": "", "tool_calls": [called("a", "call_2", x=1), called("b", "call_3")]},
        {"role": "tool", "tool_call_id": "call_2", "content": ""},
        {"role": "tool", "tool_call_id": "call_3", "content": "one\nof two lines\ntwo"},
    ]


def test_unreadable_text_stays_text_and_its_answer_is_not_the_users() -> None:
    messages = trajectory_messages(
        episode(
            Step(0, "[ls(", '{"error": "..."}', (), True),
            Step(0, "Done.", "and now?", (), False),
            Step(1, "[ls()] cut", "", (), True),
        ),
        task("go", "and now?"),
    )
    assert messages == [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "[ls("},
        {"role": "user", "name": "environment", "content": '{"error": "..."}'},
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "and now?"},
        {"role": "assistant", "content": "[ls()] cut"},
    ]
    assert turns_and_solution(messages)[0] == ("go", "and now?")


def test_a_turn_that_ran_out_unanswered_keeps_the_users_last_words() -> None:
    messages = trajectory_messages(episode(Step(0, "Done.", "and now?")), task("go", "and now?"))
    assert messages[-1] == {"role": "user", "content": "and now?"}


def test_only_calls_that_the_environment_read_become_tool_calls() -> None:
    """A cut action was not played, and an environment with another syntax may have read something else."""
    cut, other = Step(0, "[ls()]", "", (), True), Step(0, "ls(); pwd()", "ok", ("ls", "pwd"))
    assert all("tool_calls" not in m for m in trajectory_messages(episode(cut, other), task("go")))


def test_what_is_said_beside_calls_is_kept() -> None:
    action = '<think>hm</think>Let me see. <tool_call>{"name": "f", "arguments": {"a": "</tool_call>"}}</tool_call> So.'
    said = trajectory_messages(episode(Step(0, action, "ok", ("f",))), task("go"))[1]
    assert said["content"] == "<think>hm</think>Let me see.  So."
    assert said["tool_calls"] == [called("f", "call_0", a="</tool_call>")]


def test_results_end_where_the_replay_ended() -> None:
    solved = task("go", solution=(("a()", "b()"),))
    messages = task_messages(solved, (), [PlayedCall(0, "a()", "ok", False)])
    assert [m["content"] for m in messages if m["role"] == "tool"] == ["ok"]
    assert [m["role"] for m in messages] == ["user", "assistant", "tool", "assistant", "assistant"]


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ("hello", "role is 'None'"),
        ({"role": "robot"}, "role is 'robot'"),
        ({"role": "user", "content": [{"type": "image"}]}, "content has to be text, not list"),
        ({"role": "assistant", "tool_calls": "f()"}, "tool_calls is no list"),
        ({"role": "assistant", "tool_calls": [{"name": "f"}]}, "tool_calls needs"),
        ({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}, "'f': "),
        ({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {"a": b"x"}}}]}, "bytes"),
        ({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1e400}}}]}, "not a number"),
        ({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "[1]"}}]}, "must be an object"),
        ({"role": "assistant", "tool_calls": [{"function": {"name": "a b", "arguments": "{}"}}]}, "identifiers"),
        (
            {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": '{}, "name": "g"'}}]},
            "another call",
        ),
        (
            {
                "role": "assistant",
                "tool_calls": [{"function": {"name": "f", "arguments": '{}}</tool_call><tool_call>{"name": "g"'}}],
            },
            "another call",
        ),
    ],
)
def test_messages_that_hold_no_task_are_refused(message: Any, problem: str) -> None:
    with pytest.raises(UnreadableMessages, match=r"\[1\]") as caught:
        turns_and_solution([{"role": "user", "content": "go"}, message])
    assert problem in str(caught.value)


def test_calls_need_a_user_first_and_may_bring_arguments_as_an_object() -> None:
    calls = {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {"a": "é"}}}]}
    with pytest.raises(UnreadableMessages, match="before any user message"):
        turns_and_solution([calls])
    assert turns_and_solution([{"role": "user", "content": "go"}, calls]) == (("go",), (("f(a='é')",),))
