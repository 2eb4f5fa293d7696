"""Actions that are Python programs against ``apis``: finding the program in a model's text, and the APIs it names.

Parsed, never evaluated. Benchmarks whose agents write code read their actions with it, and so does whatever looks at
solutions later.
"""

from __future__ import annotations

import ast
import json
import re
import warnings

TOOL = "execute_code"  # the name of the one tool, for models that can only call functions
MAX_PROGRAM_CHARS = 20_000
ROOT = "apis"

# Both take time linear in the text, whose length is bounded first.
_FENCE = re.compile(r"```[^\n`]*\n(.*?)(?:```|\Z)", re.DOTALL)
_TOOL_CALL = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)


class UnreadableProgram(ValueError):
    """Text that means to be a program and cannot be read as one; the message says why, for the agent."""


def read_program(text: str) -> str | None:
    """The program that an action holds; None for words without one. Raises UnreadableProgram.

    In order of preference: a fenced code block; a call of ``execute_code``, as JSON in <tool_call> tags or as Python;
    the whole text, if it is Python and calls something.

    >>> read_program("I look." + chr(10) + "```python" + chr(10) + "print(apis.phone.show_alarms())" + chr(10) + "```")
    'print(apis.phone.show_alarms())'
    """
    if len(text) > MAX_PROGRAM_CHARS:
        raise UnreadableProgram(f"the reply is longer than {MAX_PROGRAM_CHARS} characters; write shorter programs")
    found = marked_program(text)
    if found is not None:
        return found
    tree = parsed(text)
    if tree is None:
        if f"{ROOT}." in text:
            raise UnreadableProgram("the reply is no valid Python; write the program in one ```python block")
        return None
    if not any(isinstance(node, ast.Call) for node in ast.walk(tree)):
        return None
    only = tree.body[0].value if len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr) else None
    if isinstance(only, ast.List) and len(only.elts) == 1:  # a call in brackets, as other benchmarks write it
        program = printed(only.elts[0])
        if program is None:
            raise UnreadableProgram("the call is nested too deeply or holds too long a number; write it simpler")
        return program
    return text.strip()


def marked_program(text: str) -> str | None:
    """The program that a fence or a call of ``execute_code`` marks as one; None if nothing does.

    Raises UnreadableProgram if there is more than one, or if the call cannot be read.
    """
    blocks = _FENCE.findall(text)
    if not blocks:
        blocks = [_from_json(call) for call in _TOOL_CALL.findall(text)]
    if len(blocks) > 1:
        raise UnreadableProgram(f"the reply holds {len(blocks)} programs; write one, and wait for its output")
    inner = str(blocks[0]).strip() if blocks else text
    called = _from_call(inner)
    return called if called is not None else inner if blocks else None


def api_names(program: str) -> tuple[str, ...]:
    """``app.api`` of every call of ``apis.app.api(...)``, in the order in which straight code would make them.

    >>> api_names("print(apis.phone.show_alarms(access_token=apis.phone.login(username='a', password='b')))")
    ('phone.login', 'phone.show_alarms')
    """
    tree = parsed(program)
    if tree is None:
        return ()
    calls = sorted(api_calls(tree), key=lambda call: (call.end_lineno or 0, call.end_col_offset or 0))
    return tuple(name for call in calls if (name := api_name(call)))


def api_calls(tree: ast.AST) -> list[ast.Call]:
    """The calls of ``apis.app.api(...)`` in a tree, outer ones before those in their arguments."""
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call) and api_name(node)]


def api_name(call: ast.Call) -> str:
    """``app.api`` if the call is one of ``apis.app.api(...)``, else ""."""
    api = call.func
    app = api.value if isinstance(api, ast.Attribute) else None
    if not isinstance(api, ast.Attribute) or not isinstance(app, ast.Attribute):
        return ""
    return f"{app.attr}.{api.attr}" if isinstance(app.value, ast.Name) and app.value.id == ROOT else ""


def parsed(program: str) -> ast.Module | None:
    """The tree of a program, None if it is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # doubtful escapes in a model's text are not our warning
            return ast.parse(program.strip())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def printed(tree: ast.AST) -> str | None:
    """The text of a tree, None if it has none: Python reads deeper nesting and longer numbers than it writes."""
    try:
        return ast.unparse(tree)
    except (RecursionError, ValueError):
        return None


def _from_json(call: str) -> str:
    try:
        read = json.loads(call)
        program = read["arguments"]["code"]
    except (ValueError, LookupError, TypeError, RecursionError):
        raise UnreadableProgram(
            f'the call cannot be read; write {{"name": "{TOOL}", "arguments": {{"code": "..."}}}}'
        ) from None
    if read.get("name") != TOOL or not isinstance(program, str):
        raise UnreadableProgram(f"there is one tool, {TOOL}, and its argument is code, a string")
    return program


def _from_call(text: str) -> str | None:
    """The argument of ``execute_code(code='...')``, alone or in a list; None if the text is no such call."""
    if TOOL not in text or (tree := parsed(text)) is None or len(tree.body) != 1:
        return None
    value = tree.body[0].value if isinstance(tree.body[0], ast.Expr) else None
    if isinstance(value, ast.List) and len(value.elts) == 1:
        value = value.elts[0]
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name) or value.func.id != TOOL:
        return None
    given = [*value.args, *(keyword.value for keyword in value.keywords)]
    if len(given) != 1 or not isinstance(given[0], ast.Constant) or not isinstance(given[0].value, str):
        raise UnreadableProgram(f"write {TOOL}(code='...') with the program as one string")
    return given[0].value
