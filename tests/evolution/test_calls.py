from __future__ import annotations

import pytest

from coevolve_lab.evolution.calls import called_tools, canonical_call, solution_key, solution_tools


@pytest.mark.parametrize(
    ("call", "tools"),
    [
        ("cd(folder='a')", ("cd",)),
        ("[cd(folder='a'), ls()]", ("cd", "ls")),
        ("apis.phone.login(user=f(1))", ("apis.phone.login", "f")),
        ("echo(text='rm(1) then ls()')", ("echo",)),
        ('<tool_call>{"name": "mv", "arguments": {"a": 1}}</tool_call>', ("mv",)),
        ("no call at all", ()),
        ("(" * 5000, ()),
        ("f(" + "[" * 3000 + "]" * 3000 + ")", ()),
    ],
)
def test_names_are_read_without_running_anything(call: str, tools: tuple[str, ...]) -> None:
    assert called_tools(call) == tools


def test_equal_calls_have_one_spelling() -> None:
    assert canonical_call('mv( b = "y",a=1 )') == canonical_call("mv(a=1, b='y')")
    assert canonical_call("mv(a=1)") != canonical_call("mv(a='1')")
    assert canonical_call("click[  buy   now ") == "click[ buy now"


def test_oversized_text_is_compared_as_it_is() -> None:
    big = f"f(a='{'x' * 30_000}')"
    assert called_tools(big) == ()
    assert canonical_call(big) == big


def test_solution_key_ignores_turns_but_not_order_or_start() -> None:
    key = solution_key({"a": 1, "b": 2}, (("f()", "g()"),))
    assert key == solution_key({"b": 2, "a": 1}, (("f( )",), ("g()",)))
    assert key != solution_key({"a": 1, "b": 2}, (("g()", "f()"),))
    assert key != solution_key({"a": 1, "b": 3}, (("f()", "g()"),))


def test_solution_tools_are_distinct_in_order() -> None:
    assert solution_tools((("g()", "f()"), ("g(a=1)",))) == ("g", "f")
