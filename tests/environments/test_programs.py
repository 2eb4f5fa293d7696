"""Programs are found in what models write, and never run here."""

from __future__ import annotations

import pytest

from coevolve_lab.environments.programs import MAX_PROGRAM_CHARS, UnreadableProgram, api_names, read_program

CALL = "print(apis.phone.show_alarms(access_token='t'))"


@pytest.mark.parametrize(
    "text",
    [
        f"I look first.\n```python\n{CALL}\n```",
        f"```\n{CALL}\n```\nThat is all.",
        f"```py\n{CALL}",  # the reply ended in its block
        f'<tool_call>{{"name": "execute_code", "arguments": {{"code": "{CALL}"}}}}</tool_call>',
        f"execute_code(code={CALL!r})",
        f"[execute_code({CALL!r})]",
        f"```\nexecute_code(code={CALL!r})\n```",
        f"  {CALL}\n",
        f"[{CALL}]",
    ],
)
def test_one_program_is_found_however_it_is_marked(text: str) -> None:
    assert read_program(text) == CALL


@pytest.mark.parametrize(
    "text", ["", "Done.", "done", "Like the song (id 12) in Spotify.", "x = 3", "I cannot do this."]
)
def test_words_hold_no_program(text: str) -> None:
    assert read_program(text) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("```\na()\n```\n```\nb()\n```", "holds 2 programs"),
        ("apis.phone.login(", "no valid Python"),
        ("<tool_call>{</tool_call>", "cannot be read"),
        ('<tool_call>["code"]</tool_call>', "cannot be read"),
        ('<tool_call>{"name": "ls", "arguments": {"code": "a()"}}</tool_call>', "one tool"),
        ('<tool_call>{"name": "execute_code", "arguments": {"code": 3}}</tool_call>', "one tool"),
        ("execute_code(code=x)", "as one string"),
        ("a" * (MAX_PROGRAM_CHARS + 1), "longer than"),
        (f"<tool_call>{'[' * 15_000}", "cannot be read"),
        (f"[f(a={'1+' * 600}1)]", "nested too deeply"),
        (f"[f(a=0x{'f' * 5000})]", "too long a number"),
    ],
)
def test_what_cannot_be_read_is_explained(text: str, reason: str) -> None:
    with pytest.raises(UnreadableProgram, match=reason):
        read_program(text)


def test_a_fence_is_a_program_even_if_python_does_not_agree() -> None:
    assert read_program("```python\nprint(\n```") == "print("


@pytest.mark.parametrize(
    ("program", "names"),
    [
        ("x = apis.a.first()\nprint(apis.b.second(y=x))", ("a.first", "b.second")),
        ("apis.a.outer(x=apis.a.inner())", ("a.inner", "a.outer")),
        ("for _ in range(3): apis.a.b()", ("a.b",)),
        ("other.a.b(); apis.a; apis.a.b.c(); print(1)", ()),
        ("not python (", ()),
        ("(" * 9000, ()),
    ],
)
def test_api_names_come_in_the_order_of_execution(program: str, names: tuple[str, ...]) -> None:
    assert api_names(program) == names
