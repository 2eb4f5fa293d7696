from __future__ import annotations

import pytest

from coevolve_lab.evolution.calls import called_tools, canonical_call, solution_key, solution_tools


@pytest.mark.parametrize(
    ("call", "tools"),
    [
        ("cd(folder='a')", ("cd",)),
        ("[cd(folder='a'), ls()]", ("cd", "ls")),
        ("phone.login(user=f(1))", ("phone.login", "f")),
        ("apis.phone.login(user=f(1))", ("phone.login",)),
        ("I look.\n```python\nprint(len(apis.phone.show_alarms()))\n```", ("phone.show_alarms",)),
        ('<tool_call>{"name": "execute_code", "arguments": {"code": "apis.a.b()"}}</tool_call>', ("a.b",)),
        ("echo(text='rm(1) then ls()')", ("echo",)),
        ('<tool_call>{"name": "mv", "arguments": {"a": 1}}</tool_call>', ("mv",)),
        ("no call at all", ()),
        ("(" * 5000, ()),
        ("f(" + "[" * 3000 + "]" * 3000 + ")", ()),
        ("a" + ".b" * 600 + "()", ()),
        ("f(0x" + "f" * 5000 + "())", ()),
    ],
)
def test_names_are_read_without_running_anything(call: str, tools: tuple[str, ...]) -> None:
    assert called_tools(call) == tools


def test_equal_calls_have_one_spelling() -> None:
    assert canonical_call('mv( b = "y",a=1 )') == canonical_call("mv(a=1, b='y')")
    assert canonical_call("mv(a=1)") != canonical_call("mv(a='1')")
    assert canonical_call("click[  buy   now ") == "click[ buy now"


@pytest.mark.parametrize("argument", ["1+" * 600 + "1", "0x" + "f" * 5000])
def test_what_python_reads_but_cannot_print_is_compared_as_text(argument: str) -> None:
    assert canonical_call(f"f(b=1,  a={argument})") == f"f(b=1, a={argument})"
    assert called_tools(f"f(a={argument})") == ("f",)


def test_equal_programs_have_one_spelling_however_they_are_marked() -> None:
    bare = "x = 1\nprint(apis.a.b(c=x, d=2))"
    for spelling in (f"```python\n{bare}\n```", "x=1\nprint( apis.a.b(d=2, c=x) )", f"execute_code(code={bare!r})"):
        assert canonical_call(spelling) == canonical_call(bare)
    assert canonical_call("```\nf(1)\n```\n```\nf(2)\n```") != canonical_call("f(1)")


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
