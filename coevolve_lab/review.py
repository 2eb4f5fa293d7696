"""People decide about drafts: which ones wait, what was decided, and whether an edited draft would pass.

A draft that ``evolution.review`` holds back has a verdict "held" and no review. A decision is left in the run folder
(store/mailbox.py) by whoever looks at the run; the run itself takes it up at the beginning of its next round.
"""

from __future__ import annotations

import getpass
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from coevolve_lab import environments
from coevolve_lab.config import Config
from coevolve_lab.errors import StoreError
from coevolve_lab.evolution import Guard, Occasion, validate_drafts
from coevolve_lab.records import Decision, Review, Task, TaskDraft, Verdict
from coevolve_lab.store import RunReader
from coevolve_lab.store.mailbox import post_review, posted_reviews

if TYPE_CHECKING:
    import polars as pl

MOST_CHARACTERS = 2_000  # of a reason
_HELD = """
select v.draft_id, v.round, v.reason, v.detail, v.score, v.similarity, d.origin, d.explorer, d.turns, d.solution,
       d.start, d.context_id, d.rollout_id
from verdicts v join drafts d on d.id = v.draft_id
where v.outcome = 'held' and not exists (select 1 from reviews r where r.draft_id = v.draft_id)
qualify row_number() over (partition by v.draft_id order by v.id desc) = 1
order by v.round, v.id
"""


def held(reader: RunReader) -> pl.DataFrame:
    """Drafts whose fate is not yet in force, oldest first; ``decided`` says what a person has left about each, if
    anything ("accept", "reject", "edit")."""
    import polars as pl

    posted = posted_reviews(reader.run_dir)
    waiting = reader.sql(_HELD)
    said = [posted[name].decision if name in posted else None for name in waiting["draft_id"]]
    return waiting.with_columns(pl.Series("decided", said, dtype=pl.String))


def undecided(reader: RunReader, before: int | None = None) -> list[str]:
    """Ids of the held drafts that nobody has decided about; before: of rounds before this one."""
    waiting = held(reader)
    if before is not None:
        waiting = waiting.filter(waiting["round"] < before)
    return waiting.filter(waiting["decided"].is_null())["draft_id"].to_list()


def decide(
    reader: RunReader,
    draft_id: str,
    decision: Decision,
    reason: str = "",
    turns: Sequence[str] = (),
    solution: Sequence[Sequence[str]] = (),
    reviewer: str | None = None,
) -> Review:
    """Leave a decision on a held draft for the run; until the run takes it up, a later one replaces it.

    An edit brings its own turns and solution, one list of calls a turn. Raises StoreError when the draft does not wait,
    or the decision is not complete.
    """
    if decision not in ("accept", "reject", "edit"):
        raise StoreError(f"a decision is 'accept', 'reject' or 'edit', not {decision!r}")
    edited = edited_parts(turns, solution)
    if (decision == "edit") != bool(edited[0]):
        raise StoreError("an edit needs turns and, for each turn, the calls that solve it; the others take neither")
    waiting = reader.sql(_HELD)["draft_id"].to_list()  # not held(): what was decided before does not matter here
    if draft_id not in waiting:
        names = ", ".join(waiting[:5]) or "none"
        raise StoreError(f"draft {draft_id!r} does not wait for a decision in {reader.run_dir}; waiting: {names}")
    review = Review(
        f"review-{draft_id}", draft_id, decision, -1, reason[:MOST_CHARACTERS], reviewer or _who(), *edited, time.time()
    )
    post_review(reader.run_dir, review)
    return review


def decided(reader: RunReader, round: int) -> list[Review]:
    """Decisions that were left and are not yet in force, as records of the round that takes them up."""
    posted = posted_reviews(reader.run_dir)
    if not posted:  # as in every round of a run that nobody reviews
        return []
    waiting = held(reader)["draft_id"].to_list()
    return [replace(posted[name], round=round) for name in waiting if name in posted]


def held_records(reader: RunReader) -> dict[str, tuple[TaskDraft, Verdict]]:
    """The drafts that wait and their verdicts, as records."""
    condition = "select draft_id from verdicts where outcome = 'held' except select draft_id from reviews"
    drafts = {draft.id: draft for draft in reader.records(TaskDraft, f"id in ({condition})")}
    verdicts = reader.records(Verdict, f"outcome = 'held' and draft_id in ({condition})")
    return {verdict.draft_id: (drafts[verdict.draft_id], verdict) for verdict in verdicts if verdict.draft_id in drafts}


def held_tasks(reader: RunReader) -> list[Task]:
    """What would enter D_t if all drafts that wait were accepted."""
    return [verdict.task for _, verdict in held_records(reader).values() if verdict.task is not None]


def admitted(reader: RunReader, reviews: Sequence[Review]) -> tuple[list[Verdict], list[TaskDraft]]:
    """What these decisions let in: the verdicts of accepted drafts, as accepted ones, and the edited drafts, which have
    to pass validation first."""
    records = held_records(reader)
    accepted = [replace(records[r.draft_id][1], outcome="accepted") for r in reviews if r.decision == "accept"]
    edits = [r for r in reviews if r.decision == "edit"]
    return accepted, [edited_draft(records[r.draft_id][0], r.turns, r.solution, r.round) for r in edits]


def edited_draft(draft: TaskDraft, turns: Sequence[str], solution: Sequence[Sequence[str]], round: int) -> TaskDraft:
    """The draft with a reviewer's turns and solution, under an id of its own; its context stays its cause."""
    return replace(
        draft,
        id=f"{draft.id}-edit",
        round=round,
        turns=tuple(turns),
        solution=tuple(map(tuple, solution)),
        explorer=f"{draft.explorer}+human",
    )


def check_edit(
    config: Config, reader: RunReader, draft_id: str, turns: Sequence[str], solution: Sequence[Sequence[str]]
) -> Verdict:
    """What validation would say of an edit, by executing it here; nothing is recorded. Raises StoreError when the draft
    does not wait."""
    records = held_records(reader)
    if draft_id not in records:
        raise StoreError(f"draft {draft_id!r} does not wait for a decision in {reader.run_dir}")
    environment = environments.make(config.environment.name, **config.environment.arguments())
    guard = Guard.from_config(config.evolution, environment.tasks(config.environment.evaluation_split))
    draft = edited_draft(records[draft_id][0], *edited_parts(turns, solution), 0)
    accepted = [
        records[r.draft_id][1].task for r in decided(reader, 0) if r.decision == "accept" and r.draft_id != draft_id
    ]
    known = [*reader.records(Task), *(task for task in accepted if task is not None)]
    occasion, seconds = Occasion(0, config.seed), config.evolution.draft_seconds
    return validate_drafts([draft], environment, guard, known, occasion, seconds=seconds)[0]


def edited_parts(
    turns: Sequence[str], solution: Sequence[Sequence[str]]
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Texts without surrounding space, empty calls left out. Raises StoreError when a turn has no text or no calls."""
    said = tuple(turn.strip() for turn in turns)
    calls = tuple(tuple(call.strip() for call in turn if call.strip()) for turn in solution)
    if len(said) != len(calls) or not all(said) or not all(calls):
        raise StoreError(
            f"an edit needs text and at least one call for every turn; got {len(said)} turns of text and "
            f"{len(calls)} of calls"
        )
    return said, calls


def _who() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container without a user of that number
        return "somebody"
