from __future__ import annotations

from typing import Any

import pytest

from coevolve_lab.environments.base import Environment, ScriptedWorld, Session
from coevolve_lab.environments.bfcl import api
from coevolve_lab.environments.bfcl.environment import BFCLEnvironment
from coevolve_lab.records import Task
from tests.environments.bfcl.test_calls import MALFORMED

FILES = {"report.txt": {"type": "file", "content": "b\na"}, "old": {"type": "directory", "contents": {}}}
START: dict[str, Any] = {
    "involved_classes": ["GorillaFileSystem", "MathAPI"],
    "initial_config": {"GorillaFileSystem": {"root": {"home": {"type": "directory", "contents": FILES}}}},
    "excluded_function": ["rm"],
}
TASK = Task(
    "t1", "bfcl", ("sort the report", "file it in old"), START,
    (("sort(file_name='report.txt')",), ("mv(source='report.txt', destination='old')",)), origin="seed",
)  # fmt: skip
SORT, MOVE = (turn[0] for turn in TASK.solution)


@pytest.fixture(scope="module")
def environment() -> BFCLEnvironment:
    return BFCLEnvironment()


def played(environment: BFCLEnvironment, *actions: str) -> float:
    session = environment.open(TASK)
    for action in actions:
        session.step(action)
    return session.score()


def test_a_conversation(environment: BFCLEnvironment) -> None:
    assert isinstance(environment, Environment)
    assert isinstance(environment, ScriptedWorld)
    session = environment.open(TASK)
    assert isinstance(session, Session)
    assert session.observation == "sort the report"
    assert "rm" not in [tool["function"]["name"] for tool in session.tools]
    assert session.step(f"[{SORT}, pwd()]") == (
        '{"sorted_content": "a\\nb"}\n{"current_working_directory": "/home"}',
        False,
    )
    assert (session.last_tools, session.last_failed, session.turn) == (("sort", "pwd"), False, 0)
    assert session.step("It is sorted.") == ("file it in old", False)
    assert (session.last_tools, session.last_failed, session.turn) == ((), False, 1)
    assert session.score() == 0.0
    assert session.progress() == 0.5
    session.step(MOVE)
    assert session.score() == 0.0  # the turn is still open
    assert session.step("Done.") == ("", True)
    assert session.score() == session.progress() == 1.0
    observation, done = session.step("ls()")
    assert done
    assert "over" in observation
    assert session.score() == 1.0


@pytest.mark.parametrize(
    "actions",
    [
        (),
        ("", ""),
        (TASK.turns[0], TASK.turns[1]),
        (SORT, "", MOVE),  # the last turn is never ended
        (SORT, "", ""),
        ("", SORT, MOVE, ""),
        (SORT, MOVE, "", "ls()", ""),  # too early
        (SORT, "", MOVE, "touch(file_name='x')", ""),
        (SORT, "sort(", "", MOVE, ""),  # a malformed reply fails its turn
        (SORT, "", "mv(source='report.txt', destination='archive')", ""),
    ],
)
def test_what_does_not_solve_the_task(environment: BFCLEnvironment, actions: tuple[str, ...]) -> None:
    assert played(environment, *actions) == 0.0


@pytest.mark.parametrize(
    "actions",
    [
        (SORT, "", MOVE, ""),
        (SORT, SORT, "done", "ls()", MOVE, "cd(folder='old')", "done"),
        ("cat(file_name='nothing')", SORT, "rm(file_name='report.txt')", "", MOVE, ""),
    ],
)
def test_what_solves_the_task(environment: BFCLEnvironment, actions: tuple[str, ...]) -> None:
    assert played(environment, *actions) == 1.0


def test_partial_credit_is_for_failures_of_synthesized_tasks() -> None:
    environment = BFCLEnvironment(partial_credit=0.4)
    assert played(environment, SORT, "", "") == pytest.approx(0.2)
    assert played(environment, "", "") == 0.0
    assert played(environment, SORT, "", MOVE, "") == 1.0


@pytest.mark.parametrize("text", [f"[pwd(), {SORT}]", '<tool_call>{"name": "pwd"}</tool_call>' * 2])
def test_an_action_of_a_solution_may_make_several_calls(environment: BFCLEnvironment, text: str) -> None:
    session = environment.open(Task("t3", "bfcl", ("x",), START, ((text,),), origin="feedback"))
    session.step(text)
    session.step("")
    assert session.score() == 1.0
    assert environment.open(session.task).progress() == 0.0


def test_an_unreadable_solution_is_never_solved(environment: BFCLEnvironment) -> None:
    session = environment.open(Task("t2", "bfcl", ("x",), START, (("sort(open('x'))",),), origin="feedback"))
    session.step(SORT)
    session.step("")
    assert session.score() == 0.0


HOSTILE = [
    *MALFORMED,
    "rm(file_name='report.txt')",  # excluded
    "_load_scenario({})",
    "__init__()",
    "eval('1')",
    "exec('1')",
    "open('/etc/passwd')",
    "print('x')",
    "getattr('x', 'y')",
    "power(2, 1000000000)",
    "[power(base=10, exponent=999999999), logarithm(2, 3, 999999999)]",
    "cat(file_name=['report.txt'])",
    "cd(folder=5)",
    "mv(source={}, destination=[])",
    "cp(source='report.txt')",
    "post_tweet(content='x')",
    '<tool_call>{"name": "_load_scenario", "arguments": {"scenario": {}}}</tool_call>',
    '<tool_call>{"name": "rm", "arguments": {"file_name": "report.txt"}}</tool_call>',
]


@pytest.mark.parametrize("action", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_actions_are_answered_and_change_nothing(environment: BFCLEnvironment, action: str) -> None:
    session = environment.open(TASK)
    before = api.state(session.apis)
    observation, done = session.step(action)
    assert "rror" in observation
    assert not done
    assert session.last_failed
    assert session.turn == 0
    assert api.same_state(session.apis, before)
    assert session.score() == 0.0


@pytest.mark.parametrize(
    "text",
    [
        "\0",
        "\u202e\U0001f680",
        "x" * 1_000_000,
        "<think>" * 50_000,
        "\ud800",
        "é(" * 9,
        "().__class__.__bases__[0].__subclasses__()",
    ],
)
def test_odd_text_is_text(environment: BFCLEnvironment, text: str) -> None:
    session = environment.open(TASK)
    assert session.step(text) == (TASK.turns[1], False)
    assert session.last_tools == ()


def test_long_observations_are_cut() -> None:
    session = BFCLEnvironment(max_observation_chars=16).open(TASK)
    observation, _ = session.step(SORT)
    assert observation == '{"sorted_content... [10 more characters]'


def test_sessions_of_one_task_do_not_leak(environment: BFCLEnvironment) -> None:
    first, second = environment.open(TASK), environment.open(TASK)
    first.step(MOVE)
    assert second.step("ls()")[0] == '{"current_directory_content": ["report.txt", "old"]}'
    first.close()
    assert environment.open(TASK).step("ls()")[0] == '{"current_directory_content": ["report.txt", "old"]}'
    assert second.step(SORT)[1] is False
