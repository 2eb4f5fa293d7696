"""One draft that waits for a person, as HTML: what it asks, how it is solved, where it came from."""

from __future__ import annotations

from typing import Any

from coevolve_lab.store import RunReader, quoted
from coevolve_lab.widgets import chain, markup, pages
from coevolve_lab.widgets.replay import step_html

MOST_TURNS, MOST_STEPS = 20, 60
_ROW = """
select d.id, d.turns, d.solution, d.start, d.round, d.origin, d.explorer, d.context_id, d.rollout_id,
       v.reason, v.detail, v.score, v.similarity
from verdicts v join drafts d on d.id = v.draft_id
where v.outcome = 'held' and not exists (select 1 from reviews r where r.draft_id = v.draft_id)
"""


def held_row(reader: RunReader, draft_id: str) -> dict[str, Any] | None:
    """The draft with its verdict; None when it does not wait (any more)."""
    found = reader.sql(f"{_ROW} and d.id = {quoted(draft_id)} limit 1")
    return found.row(0, named=True) if found.height else None


def draft_page(reader: RunReader, row: dict[str, Any]) -> str:
    """What a person needs to decide. row: of ``held_row``."""
    near = "" if row["similarity"] is None else f", nearest evaluation task {row['similarity']:.2f}"
    head = (
        f"<h4>Draft {markup.text(row['id'], 80)}</h4>{markup.tag('held: ' + row['reason'])} round {row['round']}, "
        f"origin {markup.text(row['origin'], 40)}, made by {markup.text(row['explorer'] or 'nobody named', 80)}{near}; "
        f"its solution scored {row['score']:.2f} when it was validated"
    )
    start = f"<details><summary>start state</summary>{markup.block(row['start'])}</details>"
    return f"{head}{_why(row)}{_turns(row)}{start}{_origin(reader, row)}{_rollout(reader, row)}"


def _why(row: dict[str, Any]) -> str:
    if row["reason"] != "risk":
        return ""
    return (
        f'<div class="card failed coevolve-risk">{markup.tag("risk", False)} <b>{markup.text(row["detail"])}</b></div>'
    )


def _turns(row: dict[str, Any]) -> str:
    many = len(row["turns"]) > 1
    cards = [
        f'<div class="card"><b>User{f", turn {i + 1}" if many else ""}</b> {markup.block(said)}'
        f"<b>Solved by</b> {markup.block(chr(10).join(calls))}</div>"
        for i, (said, calls) in enumerate(zip(row["turns"], row["solution"], strict=False))
    ]
    more = len(cards) - MOST_TURNS
    return "".join(cards[:MOST_TURNS]) + (markup.muted(f"{more} more turns are not shown") if more > 0 else "")


def _origin(reader: RunReader, row: dict[str, Any]) -> str:
    context = chain.context(reader, row["context_id"])
    if context is None:
        return f"<p>{markup.muted('its exploration context is not recorded, so nothing here says what caused it')}</p>"
    signal = chain.signal(reader, context["signal_id"]) if context["signal_id"] else None
    if signal:
        cause = (
            f"a {markup.text(signal['kind'], 40)} signal on trajectory {markup.text(signal['trajectory_id'], 80)} "
            f"(score {signal['score']:.2f}, task {markup.text(signal['task_id'], 80)}); follow it with "
            + markup.code(f"step_through(run, signal_id={signal['id']!r})", 200)
        )
    else:
        cause = f"unguided exploration ({markup.text(context['kind'], 40)}): no signal led here"
    about = f"<br>{markup.text(context['summary'], 600)}" if context["summary"] else ""
    goals = "".join(f"<li>{markup.text(goal, 300)}</li>" for goal in context["exploration_objectives"][:MOST_TURNS])
    whole = f"<details><summary>its exploration context</summary>{pages.context_page(context)}</details>"
    return f"<p><b>Came of</b> {cause}{about}</p>{f'<ul>{goals}</ul>' if goals else ''}{whole}"


def _rollout(reader: RunReader, row: dict[str, Any]) -> str:
    steps = reader.sql(
        'select "index", action, observation, failed, tools from triplets '
        f"where round = {int(row['round'])} and context_id = {quoted(row['context_id'])} "
        f'and rollout_id = {quoted(row["rollout_id"])} order by "index" limit {MOST_STEPS}'
    ).to_dicts()
    if not steps:
        return f"<p>{markup.muted('its exploration rollout is not recorded')}</p>"
    failed = sum(step["failed"] for step in steps)
    return (
        f"<details><summary>the exploration that it was abstracted from: {len(steps)} steps, {failed} failed"
        f"</summary>{''.join(step_html(step) for step in steps)}</details>"
    )
