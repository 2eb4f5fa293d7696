from __future__ import annotations

import json
import subprocess
import sys

import pytest

from coevolve_lab.environments.bfcl.calls import (
    MAX_CALLS,
    MAX_CHARS,
    Call,
    MalformedAction,
    parse_action,
    parse_call,
    render_call,
)

CD = Call("cd", (), {"folder": "docs"})


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("cd(folder='docs')", [CD]),
        ("[cd(folder='docs')]", [CD]),
        ("[cd(folder='docs'), ls()]", [CD, Call("ls")]),
        ("cd(folder='docs'), ls()", [CD, Call("ls")]),
        ("```python\n[cd(folder='docs')]\n```", [CD]),
        ("```python \r\n\n[cd(folder='docs')]\n\n ```", [CD]),
        ("```[cd(folder='docs')]```", []),
        ("```" + "\n" * 20_000 + "x", []),
        ("<think>I could call rm(file_name='x')</think>\n[cd(folder='docs')]", [CD]),
        ("cd('docs')", [Call("cd", ("docs",))]),
        ("f(a=-1, b=+2.5, c=True, d=None)", [Call("f", (), {"a": -1, "b": 2.5, "c": True, "d": None})]),
        ("f(a=[1, (2, 'x')], b={'k': [None]})", [Call("f", (), {"a": [1, (2, "x")], "b": {"k": [None]}})]),
        ('<tool_call>{"name": "cd", "arguments": {"folder": "docs"}}</tool_call>', [CD]),
        ('Going.\n<tool_call>\n{"name": "cd", "arguments": {"folder": "docs"}}\n', [CD]),
        (
            '<tool_call>{"name": "ls"}</tool_call>\n<tool_call>{"name": "pwd", "arguments": {}}',
            [Call("ls"), Call("pwd")],
        ),
        (
            '<tool_call>{"name": "f", "arguments": {"a": "</tool_call>"}}</tool_call>',
            [Call("f", (), {"a": "</tool_call>"})],
        ),
        ("", []),
        ("[]", []),
        ("I moved the file.", []),
        ("Sure (it took a while), done.", []),
        ("<think>cd(folder='docs')", []),
        ("I will now call cd(folder='docs')", []),
    ],
)
def test_what_an_action_calls(text: str, calls: list[Call]) -> None:
    assert parse_action(text) == calls


MALFORMED = [
    "cd(folder='docs'",
    "[cd(folder='docs')",
    "[ls(), 1]",
    "[ls() for _ in range(9)]",
    "ls().mkdir(dir_name='x')",
    "os.system('true')",
    "__import__('os').system('true')",
    "[().__class__]",
    "f(a=g())",
    "f(a=lambda: 1)",
    "f(a=[x for x in (1,)])",
    "f(a=f'{1}')",
    "f(a=(b := 1))",
    "f(a=b'x')",
    "f(a={1, 2})",
    "f(a={1: 2})",
    "f(a=...)",
    "f(a=1j)",
    "f(a=1 + 1)",
    "f(a=2 ** 10 ** 10)",
    "f(a=name)",
    "f(a=not True)",
    "f(a=-True)",
    "f(a=1e999)",
    "f(*[1])",
    "f(**{'a': 1})",
    "f(a={**{}})",
    "f(a=1, a=2)",
    "f(a=" + "9" * 5000 + ")",
    "f(a=" + "9" * 40 + ")",
    "f(a='" + "x" * MAX_CHARS + "')",
    "f(a=" + "[" * 50 + "]" * 50 + ")",
    "f(" + "(" * 5000,
    "f(a=" + "-" * 15000 + "1)",
    "f(a=" + "1+" * 9000 + "1)",
    "f(a=" + "x." * 9000 + "x)",
    "f" + "(1)" * 6000,
    "f(a='\0')",
    "f(a='\\ud800')",
    "[" + "ls(), " * (MAX_CALLS + 1) + "]",
    "f(); g()",
    "[import os]",
    "lambda_(x) if True else 0",
    '<tool_call>{"name": "ls", "arguments": {}',
    '<tool_call>{"name": "ls", "arguments": []}</tool_call>',
    '<tool_call>{"name": 1}</tool_call>',
    '<tool_call>["ls"]</tool_call>',
    '<tool_call>{"name": "os.system", "arguments": {}}</tool_call>',
    '<tool_call>{"name": "f", "arguments": {"a b": 1}}</tool_call>',
    '<tool_call>{"name": "f", "arguments": {"class": 1}}</tool_call>',
    '<tool_call>{"name": "f", "arguments": {"a": NaN}}</tool_call>',
    '<tool_call>{"name": "f", "arguments": {"a": 1e999}}</tool_call>',
    '<tool_call>{"name": "f", "arguments": {"a": ' + "9" * 5000 + "}}</tool_call>",
    '<tool_call>{"name": "f", "arguments": {"a": "\\ud800"}}</tool_call>',
    '<tool_call>{"name": "f", "arguments": {"a": ' + "[" * 9000 + "]" * 9000 + "}}</tool_call>",
    '<tool_call>{"name": "ls"}</tool_call>' * (MAX_CALLS + 1),
    '<tool_call>{"name": "ls"} and more</tool_call>',
    '{"name": "ls", "arguments": {}}',
    "<tool_call>",
    "<tool_call>ls()</tool_call>",
]


@pytest.mark.parametrize("text", MALFORMED, ids=range(len(MALFORMED)))
def test_what_looks_like_a_call_but_cannot_be_read_is_malformed(text: str) -> None:
    with pytest.raises(MalformedAction) as error:
        parse_action(text)
    assert 0 < len(str(error.value)) < 200


def test_rendered_calls_parse_back() -> None:
    call = Call("f", (1, -2.5), {"a": 'it\'s "x"\n\\', "b": [True, None, ("y",)], "c": {"k": {"é": []}}})
    assert parse_call(render_call(call)) == call
    named = Call("f", (), {"a": "</tool_call>\n", "b": [1.5, {"k": None}]})
    block = json.dumps({"name": named.name, "arguments": named.kwargs})
    assert parse_call(f"<tool_call>{block}</tool_call>") == named


def test_odd_escapes_are_read_even_where_warnings_are_errors() -> None:
    program = (
        "from coevolve_lab.environments.bfcl.calls import parse_call\n"
        r"print(parse_call('grep(pattern=\'\\d\')').kwargs['pattern'])"
    )
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("\\d\n", "")


def test_one_call_is_one_call() -> None:
    for text in ("[f(), g()]", "nothing", "[]"):
        with pytest.raises(MalformedAction, match="expected one call"):
            parse_call(text)
