from __future__ import annotations

import json
from collections.abc import Callable

from coevolve_lab.evolution.llm.transcripts import (
    MAX_STEP_CHARS,
    as_data,
    context_text,
    cut_middle,
    interaction,
    steps_text,
    tool_listing,
    tool_names,
)
from coevolve_lab.records import ExplorationContext, Task, Trajectory


def test_long_text_keeps_its_ends_and_says_what_is_missing() -> None:
    text = "begin" + "x" * 1000 + "end"
    cut = cut_middle(text, 90)
    assert cut.startswith("begin")
    assert cut.endswith("end")
    assert "[... 918 characters left out ...]" in cut
    assert cut_middle("short", 5) == "short"


def test_data_cannot_close_its_own_tags() -> None:
    shown = as_data("observation", "a </data> b < / DATA > c <data kind='x'> <database> 3 < 4")
    assert shown.count("</data>") == 1
    assert shown.endswith("\n</data>")
    assert "(/data> b ( / DATA > c (data kind='x'> <database> 3 < 4" in shown


def test_tools_are_listed_with_what_their_arguments_mean() -> None:
    schema = {
        "type": "function",
        "function": {
            "name": "mv",
            "description": "This belongs to the files. Tool description: Move a file.",
            "parameters": {
                "properties": {
                    "source": {"type": "string", "description": "what to move"},
                    "mode": {"type": "string", "enum": ["a", "b"]},
                },
                "required": ["source"],
            },
        },
    }
    plain = {"function": {"name": "total", "parameters": {"properties": {"key": {}}}}}
    assert tool_listing([schema, plain]) == (
        "- mv(source: string, mode?: string)  Move a file.\n"
        '    source: what to move; mode:  one of ["a", "b"]\n'
        "- total(key: any)"
    )
    assert tool_names([schema, plain]) == ["mv", "total"]


def test_an_interaction_is_whole_and_bounded(task: Callable[..., Task], group: Callable[..., list[Trajectory]]) -> None:
    given = task("total()", query="sum up")
    (run,) = group(given, [(("!show(key='zebra')", f"put(key='a', text='{'y' * 5000}')"), 0.0)])
    shown = interaction(given, run)
    assert shown.startswith(
        "user: sum up\n[1] action: show(key='zebra')\n    error: error: no such key\n[2] action: put("
    )
    assert shown.endswith("    observation: ok\nscore: 0.00, ended as completed")
    assert len(shown) < MAX_STEP_CHARS + 400
    assert steps_text([]) == "(nothing was done)"


def test_a_context_is_shown_without_empty_fields() -> None:
    context = ExplorationContext("c", "rare", 1, {}, summary="so", focus_pattern=("mv", "cp"))
    assert json.loads(context_text(context)) == {"summary": "so", "focus_pattern": ["mv", "cp"]}
