"""The pages of the step-through, as HTML: what happened at each link of the chain, or why a link is missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coevolve_lab.environments import Environment
from coevolve_lab.evolution.replaying import replay_controls, replay_solution
from coevolve_lab.evolution.validation import SOLVED
from coevolve_lab.records import Task, TaskDraft
from coevolve_lab.store import RunReader
from coevolve_lab.widgets import chain, markup
from coevolve_lab.widgets.replay import step_html, turns_of

SIDE_BY_SIDE = 4  # group members that fit beside each other at laptop width
_GOOD = {"accepted": True, "discarded": False}  # an outcome that is neither has no colour, only its name
_UNGUIDED = {
    "seed": "D_0: unguided exploration before any training",
    "random": "the random control: exploration without a focus",
    "uniform": "the uniform control: one focus tool each, evenly",
    "coverage": "the coverage floor: one focus tool each, whatever the signals say",
}


def signal_page(reader: RunReader, found: dict[str, Any]) -> str:
    """What was marked, and why. found: a row of ``chain.signal``."""
    facts = [
        ("kind", found["kind"]),
        ("round, step", f"{found['round']}, {found['step']}"),
        ("score of the trajectory", found["score"]),
        ("pattern", found["pattern"] or "none: the whole trajectory is meant"),
        ("detail", found["detail"] or None),
        ("trajectory", found["trajectory_id"]),
        ("task", found["task_id"]),
    ]
    turns = turns_of(reader, found["task_id"])
    query = markup.block(turns[0]) if turns else markup.muted("the task is not in the task set")
    name = markup.text(found["id"])
    return f"<h4>Signal {name}</h4>{markup.table(('', ''), facts)}<b>The task asks</b> {query}"


def group_page(reader: RunReader, group_id: str, round: int, trajectory_id: str) -> str:
    """The trajectory beside its group, the first step where success and failure part marked."""
    members = chain.group(reader, group_id, round)
    if not members:
        return markup.muted(f"no trajectory of group {group_id} is in this run")
    other, at = chain.parting(members, trajectory_id)
    own = next((member for member in members if member["id"] == trajectory_id), members[0])
    rest = [member for member in members if member is not own and member is not other]
    shown = [own, *([other] if other else []), *rest][:SIDE_BY_SIDE]
    solved = sum(member["score"] >= 1 for member in members)
    head = f"<h4>Group {markup.text(group_id)}</h4>{solved} of {len(members)} solved the task. "
    if other is None:
        head += "All members ended alike: there is no point where success and failure part."
    elif max(len(own["steps"]), len(other["steps"])) > at:
        head += f"Success and failure part at <b>step {at + 1}</b> (dashed frame)."
    else:
        head += "Success and failure took the same actions: what parted them is in the results."
    columns = []
    for member in shown:
        parts = [markup.tag(f"score {member['score']:.2f}", member["score"] >= 1), markup.text(member["id"], 80)]
        if member is own:
            parts.append("<b>the marked one</b>")
        elif member is other:
            parts.append("<b>the nearest of the other outcome</b>")
        marked = member is own or member is other
        steps = [step_html(s, "part" if marked and other and s["index"] == at else "") for s in member["steps"]]
        body = "".join(steps) or markup.muted("no action")
        columns.append(f"<div>{' '.join(parts)}{body}</div>")
    hidden = [member for member in members if member not in shown]
    more = markup.table(("also in the group", "score", "status"), [(m["id"], m["score"], m["status"]) for m in hidden])
    return f'{head}<div class="side">{"".join(columns)}</div>{more if hidden else ""}'


def context_page(context: dict[str, Any]) -> str:
    """What reflection made of the signal: where to explore, why, and what to avoid."""
    facts = [
        ("about", context["summary"] or None),
        ("cause of the failure", context["failure_cause"] or None),
        ("what wavers", context["instability_pattern"] or None),
        ("explore", context["focus_pattern"] or None),
        ("objectives", context["exploration_objectives"] or None),
        ("do not repeat", context["do_not_repeat"] or None),
        ("written by", context["explorer"] or None),
    ]
    why = _UNGUIDED.get(context["kind"])
    missing = f"<p>No signal led here: {markup.text(why)}.</p>" if context["signal_id"] is None and why else ""
    start = f"<details><summary>start state</summary>{markup.block(context['start'])}</details>"
    return f"<h4>Context {markup.text(context['id'])} ({markup.text(context['kind'])})</h4>{missing}" + (
        f"{markup.table(('', ''), facts)}{start}"
    )


def exploration_page(reader: RunReader, context: dict[str, Any]) -> str:
    """The exploration rollouts of a context, side by side."""
    rows = chain.triplets(reader, context["id"], context["round"])
    if not rows:
        return markup.muted("nothing is recorded of this context's exploration (not explored yet, or interrupted)")
    rollouts: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        rollouts.setdefault(row["rollout_id"], []).append(row)
    columns = [
        f"<div><b>{markup.text(name, 80)}</b>{''.join(step_html(step) for step in steps)}</div>"
        for name, steps in list(rollouts.items())[:SIDE_BY_SIDE]
    ]
    more = f" {len(rollouts) - SIDE_BY_SIDE} more are not shown." if len(rollouts) > SIDE_BY_SIDE else ""
    head = f"<h4>Exploration</h4>{len(rollouts)} rollouts in the real environment.{more}"
    return f'{head}<div class="side">{"".join(columns)}</div>'


def drafts_page(reader: RunReader, context: dict[str, Any]) -> str:
    """The drafts of a context with their verdicts, rejected ones too."""
    rows = chain.drafts(reader, context["id"], context["round"])
    if not rows:
        return markup.muted("no draft came of this exploration")
    cards = []
    for row in rows:
        outcome = row["outcome"] or "not validated"
        good = _GOOD.get(outcome)
        card = {True: "good", False: "failed", None: ""}[good]
        calls = "\n".join(call for turn in row["solution"] for call in turn)
        waits = "waits for a review" if outcome == "held" else "did not become a task"
        fate = f"became task {markup.text(row['task_id'], 80)}" if row["task_id"] else waits
        near = "" if row["similarity"] is None else f", nearest evaluation task {row['similarity']:.2f}"
        cards.append(
            f'<div class="card {card}">{markup.tag(outcome, good)} '
            f"<b>{markup.text(row['reason'] or '')}</b> {markup.text(row['detail'] or '')} "
            f"<span class='muted'>{markup.text(row['id'], 80)}: {fate}{near}</span>"
            f"{''.join(markup.block(turn) for turn in row['turns'])}<b>Solution</b> {markup.block(calls)}</div>"
        )
    return f"<h4>Drafts and verdicts</h4>{''.join(cards)}"


def task_page(reader: RunReader, task_id: str) -> str:
    """A task, where it came from, and how the policy fared on it at each visit."""
    origin = chain.cause(reader, task_id)
    if origin is None:
        return markup.muted(f"task {task_id} is not in the task set")
    row = reader.sql(f"select turns, solution, explorer from tasks where id = {chain.quoted(task_id)} limit 1").row(
        0, named=True
    )
    calls = "\n".join(call for turn in row["solution"] for call in turn)
    return (
        f"<h4>Task {markup.text(task_id)}</h4>{_origin(origin)}{''.join(markup.block(turn) for turn in row['turns'])}"
        f"<b>Solution</b> {markup.block(calls)}{_visits(chain.visits(reader, task_id))}"
    )


def replay_page(environment: Environment, drafted: Task | TaskDraft) -> str:
    """A solution executed again just now, and what the controls of the gate score: what validation saw."""
    played = replay_solution(environment, drafted)
    if played.score is None:
        result = f"{markup.tag('cut short', False)} {markup.text(played.stopped)}"
    else:
        result = markup.tag(f"score {played.score:.2f}", played.score >= 1)
    body, turn = [], -1
    for number, call in enumerate(played.calls):
        while turn < call.turn:
            turn += 1
            body.append(f'<div class="card"><b>User</b> {markup.block(drafted.turns[turn])}</div>')
        step = {"index": number, "action": call.call, "observation": call.observation, "failed": call.failed}
        body.append(step_html({**step, "tools": ("call",)}))
    if not played.calls:
        body.append(markup.muted("no call was played"))
    scores = replay_controls(environment, drafted).items()
    controls = markup.table(("control", "score", ""), [(name, score, _control(score)) for name, score in scores])
    return (
        f"<h4>The solution of {markup.text(drafted.id)}, executed again</h4>{result} "
        f"calls played in a fresh session: {len(played.calls)}{''.join(body)}"
        f"<b>Controls</b>, which must not solve it{controls}"
    )


def _control(score: float | None) -> str:
    if score is None:
        return "not played to its end"
    return "also solves it: this verifier is too lax" if score >= SOLVED else "rejected, as it should be"


def _origin(origin: dict[str, Any]) -> str:
    entered = f"Entered the task set in round {origin['round']}, origin {markup.text(origin['origin'])}. "
    if origin["draft_id"] is None:
        return entered + "It was not drafted here, so nothing in this run caused it."
    if origin["signal_id"] is not None:
        return entered + f"Caused by signal <b>{markup.text(origin['signal_id'])}</b>."
    kind = origin["context_kind"]
    return entered + f"No signal caused it: {markup.text(_UNGUIDED.get(kind, f'its context ({kind}) names none'))}."


def _visits(rows: Sequence[dict[str, Any]]) -> str:
    if not rows:
        return "<h4>Since then</h4>" + markup.muted("the policy has not been given this task yet")
    shown = [(r["step"], r["round"], r["members"], markup.Markup(markup.meter(r["solved"])), r["score"]) for r in rows]
    head = ("step", "round", "trajectories", "solved", "mean score")
    return f"<h4>Since then, visit by visit</h4>{markup.table(head, shown)}"
