"""How tools, actions and observations are shown to a model: bounded in size, and marked as data.

What an environment or a policy wrote stands between ``<data>`` tags that it cannot close by itself; the system prompts
say that nothing between them is an instruction.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from coevolve_lab.records import ExplorationContext, Step, Task, Trajectory

MAX_STEP_CHARS = 1_500  # of an action or an observation
MAX_TRANSCRIPT_CHARS = 24_000
MAX_TOOL_CHARS = 400  # of a tool's description, and of all its arguments' descriptions
_TAG = re.compile(r"<(?=\s*/?\s*data\b)", re.IGNORECASE)


def cut_middle(text: str, limit: int) -> str:
    """The text, or its two ends with a note of how much is missing between them."""
    if len(text) <= limit:
        return text
    tail = limit // 3
    return f"{text[: limit - tail]}\n[... {len(text) - limit} characters left out ...]\n{text[len(text) - tail :]}"


def as_data(kind: str, text: str, limit: int = MAX_TRANSCRIPT_CHARS) -> str:
    """``text`` between data tags; tags within it lose their bracket."""
    return f'<data kind="{kind}">\n{_TAG.sub("(", cut_middle(text, limit))}\n</data>'


def tool_listing(tools: Sequence[Mapping[str, Any]]) -> str:
    """One tool a line with its arguments, ? marking optional ones, followed by what the arguments mean."""
    return "\n".join(_tool(tool.get("function", tool)) for tool in tools)


def tool_names(tools: Iterable[Mapping[str, Any]]) -> list[str]:
    return [str(tool.get("function", tool)["name"]) for tool in tools]


def steps_text(steps: Iterable[tuple[str, str, bool]]) -> str:
    """Numbered (action, observation, failed) lines, from 1."""
    lines = []
    for number, (action, observation, failed) in enumerate(steps, 1):
        lines.append(f"[{number}] action: {cut_middle(action.strip(), MAX_STEP_CHARS)}")
        lines.append(f"    {'error' if failed else 'observation'}: {cut_middle(observation, MAX_STEP_CHARS)}")
    return "\n".join(lines) or "(nothing was done)"


def interaction(task: Task, trajectory: Trajectory) -> str:
    """A whole trajectory: what the user asked, what the agent did, what it saw and how it ended."""
    lines: list[str] = []
    for turn, message in enumerate(task.turns):
        steps: list[Step] = [step for step in trajectory.steps if step.turn == turn]
        lines.append(f"user: {cut_middle(message, MAX_STEP_CHARS)}")
        lines.append(steps_text((step.action, step.observation, step.failed) for step in steps))
    lines.append(f"score: {trajectory.score:.2f}, ended as {trajectory.status}")
    return "\n".join(lines)


def context_text(context: ExplorationContext) -> str:
    """The structured context of section 3.2 as JSON, empty fields left out."""
    fields = {
        "summary": context.summary,
        "failure_cause": context.failure_cause,
        "instability_pattern": context.instability_pattern,
        "focus_pattern": list(context.focus_pattern),
        "exploration_objectives": list(context.exploration_objectives),
        "do_not_repeat": list(context.do_not_repeat),
    }
    return json.dumps({name: value for name, value in fields.items() if value}, indent=1, ensure_ascii=False)


def _tool(function: Mapping[str, Any]) -> str:
    parameters = function.get("parameters", {})
    required = set(parameters.get("required", parameters.get("properties", {})))
    arguments, meanings = [], []
    for name, spec in parameters.get("properties", {}).items():
        arguments.append(f"{name}{'' if name in required else '?'}: {spec.get('type', 'any')}")
        choices = f" one of {json.dumps(spec['enum'])}" if "enum" in spec else ""
        if spec.get("description") or choices:
            meanings.append(f"{name}: {spec.get('description', '')}{choices}")
    # the benchmark puts the class's description before each tool's own
    purpose = str(function.get("description", "")).split("Tool description:")[-1].strip()
    line = f"- {function['name']}({', '.join(arguments)})  {cut_middle(purpose, MAX_TOOL_CHARS)}".rstrip()
    return line + (f"\n    {cut_middle('; '.join(meanings), MAX_TOOL_CHARS)}" if meanings else "")
