"""The scripted explorer's reflection: sentences about one signal, each filled with what its trajectory really shows."""

from __future__ import annotations

from coevolve_lab.evolution.calls import canonical_call, solution_tools
from coevolve_lab.evolution.contexts import Evidence, Start, good_tools
from coevolve_lab.records import ExplorationContext, Signal, Task, Trajectory

MAX_QUOTE = 200  # characters of an action or observation that are quoted


def reflect_on(
    signal: Signal, evidence: Evidence, trajectory: Trajectory, task: Task, start: Start, name: str, round: int
) -> ExplorationContext:
    """The context ``name`` for one signal; ``start`` is where its exploration begins.

    focus_pattern: the weak tools in the order in which the solution uses them. do_not_repeat: actions, as text, that
    answered an error and are not part of the solution.
    """
    focus = evidence.weak_tools(signal)
    order = {tool: i for i, tool in enumerate(solution_tools(task.solution))}
    if not signal.pattern:
        focus = tuple(sorted(focus, key=lambda tool: order.get(tool, len(order))))
    return ExplorationContext(
        id=name,
        kind=signal.kind,
        round=round,
        start=start,
        signal_id=signal.id,
        task_id=signal.task_id,
        summary=_summary(trajectory, task),
        failure_cause=_cause(trajectory, task),
        instability_pattern=_instability(signal, evidence, focus),
        focus_pattern=focus,
        exploration_objectives=_objectives(signal, focus),
        do_not_repeat=_mistakes(trajectory, task),
        explorer="scripted",
    )


def _summary(trajectory: Trajectory, task: Task) -> str:
    calls = ", ".join(trajectory.tools[:20]) or "nothing"
    return f'Asked "{_quote(" / ".join(task.turns))}", the agent called {calls} and scored {trajectory.score:.2f}.'


def _cause(trajectory: Trajectory, task: Task) -> str:
    if trajectory.score > 0.5:
        return ""
    for number, step in enumerate(trajectory.steps, 1):
        if step.failed:
            return f"Step {number}, {_quote(step.action)}, was answered: {_quote(step.observation)}"
    missing = [tool for tool in solution_tools(task.solution) if tool not in good_tools(trajectory)]
    if missing:
        return f"{', '.join(missing)} should have been called and was not."
    if trajectory.status != "completed":
        return f"The episode ended as {trajectory.status}."
    return "The right tools were called without an error, so arguments, order or extra calls were wrong."


def _instability(signal: Signal, evidence: Evidence, focus: tuple[str, ...]) -> str:
    group = evidence.groups[signal.group_id]
    solved = sum(t.score > 0.5 for t in group)
    if signal.kind == "boundary":
        named = ", ".join(evidence.parting_tools(signal.group_id, focus))
        parted = f"the solving ones call {named} without an error more often" if named else "they call the same tools"
        return f"{solved} of {len(group)} runs of this task solve it; {parted}."
    if signal.kind == "rare":
        return f"{' > '.join(signal.pattern)} is seldom seen. {signal.detail}".strip()
    return f"{solved} of {len(group)} runs of this task solve it now. {signal.detail}".strip()


def _objectives(signal: Signal, focus: tuple[str, ...]) -> tuple[str, ...]:
    together = (f"Use {' and '.join(focus)} together.",) if len(focus) > 1 else ()
    verb = {"forgetting": "Practise", "boundary": "Slightly change the arguments of"}.get(signal.kind, "Vary")
    return (*(f"{verb} {tool}." for tool in focus), *together)


def _mistakes(trajectory: Trajectory, task: Task) -> tuple[str, ...]:
    wanted = {canonical_call(call) for turn in task.solution for call in turn}
    failed = dict.fromkeys(step.action.strip() for step in trajectory.steps if step.failed)
    return tuple(_quote(action) for action in failed if action and canonical_call(action) not in wanted)[:10]


def _quote(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_QUOTE else f"{text[: MAX_QUOTE - 3]}..."
