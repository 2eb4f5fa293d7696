"""An LLM reflects on a signal (section 3.2, reflection): one structured context, or none if it is not grounded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coevolve_lab.endpoint import Reply
from coevolve_lab.evolution.contexts import Evidence, Start
from coevolve_lab.evolution.llm.grounding import Grounding
from coevolve_lab.evolution.llm.transcripts import as_data, cut_middle, interaction, tool_listing
from coevolve_lab.evolution.llm.voice import Voice, opening
from coevolve_lab.records import ExplorationContext, Signal, Task, Trajectory

MAX_ITEMS = 10  # of a list
MAX_ITEM_CHARS = 600  # of a statement
_TEXT, _LIST = {"type": "string"}, {"type": "array", "items": {"type": "string"}}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "summary": _TEXT,
        "failure_cause": _TEXT,
        "instability_pattern": _TEXT,
        "focus_pattern": _LIST,
        "exploration_objectives": _LIST,
        "do_not_repeat": _LIST,
    },
    "required": [
        "summary",
        "failure_cause",
        "instability_pattern",
        "focus_pattern",
        "exploration_objectives",
        "do_not_repeat",
    ],
    "additionalProperties": False,
}
# Objectives are proposals; everything else states what the evidence shows.
STATEMENTS = ("summary", "failure_cause", "instability_pattern", "focus_pattern", "do_not_repeat")


async def reflect_on(
    voice: Voice,
    signal: Signal,
    evidence: Evidence,
    trajectory: Trajectory,
    task: Task,
    tools: Sequence[Mapping[str, Any]],
    start: Start,
    name: str,
    round: int,
    explorer: str,
) -> ExplorationContext | None:
    """The context ``name``; None if no reply can be used.

    A context that names what the evidence does not hold is asked for once more, and then refused: its call's status in
    the record of calls is "ungrounded".
    """
    contrast = contrasting(signal, evidence, trajectory)
    shown = [interaction(task, run) for run in (trajectory, contrast) if run is not None]
    messages = opening(
        voice.prompts.fill("reflect_system"),
        voice.prompts.fill(
            "reflect",
            signal=signal.kind,
            pattern=" > ".join(signal.pattern) or "(none)",
            detail=cut_middle(signal.detail, MAX_ITEM_CHARS) or "(none)",
            tools=tool_listing(tools),
            attempt=as_data("attempt", shown[0]),
            contrast=as_data("attempt", shown[1]) if contrast is not None else "(none)",
        ),
    )
    grounding = Grounding([*shown, str(list(tools)), *signal.pattern, signal.detail])
    reply = await voice.ask("reflect", name, messages, SCHEMA)
    missing = _missing(reply, grounding)
    if missing:
        voice.mark(reply, status="ungrounded", detail=_listed(missing))
        repair = voice.prompts.fill("reflect_repair", missing=as_data("names", _listed(missing)))
        messages += [{"role": "assistant", "content": reply.text}, {"role": "user", "content": repair}]
        reply = await voice.ask("reflect", name, messages, SCHEMA)
        missing = _missing(reply, grounding)
        if missing:
            voice.mark(reply, status="ungrounded", detail=_listed(missing))
    if reply.data is None or missing:
        return None
    said = {field: _clipped(reply.data[field]) for field in SCHEMA["properties"]}
    return ExplorationContext(
        id=name,
        kind=signal.kind,
        round=round,
        start=start,
        signal_id=signal.id,
        task_id=signal.task_id,
        explorer=explorer,
        **said,
    )


def contrasting(signal: Signal, evidence: Evidence, trajectory: Trajectory) -> Trajectory | None:
    """The member of the signal's group whose score is farthest from the trajectory's, if it lies across 0.5."""
    side = trajectory.score > 0.5
    others = [other for other in evidence.groups[signal.group_id] if (other.score > 0.5) != side]
    return max(others, key=lambda other: abs(other.score - trajectory.score), default=None)


def _missing(reply: Reply, grounding: Grounding) -> list[str]:
    if reply.data is None:
        return []
    said = [_clipped(reply.data[field]) for field in STATEMENTS]
    return grounding.missing(text for value in said for text in ([value] if isinstance(value, str) else value))


def _clipped(value: Any) -> Any:
    """A statement or a list of them in the size that a context may have."""
    if isinstance(value, str):
        return value.strip()[:MAX_ITEM_CHARS]
    return tuple(_clipped(item) for item in value[:MAX_ITEMS] if item.strip())


def _listed(missing: Sequence[str]) -> str:
    return ", ".join(name[:100] for name in missing[:20])
