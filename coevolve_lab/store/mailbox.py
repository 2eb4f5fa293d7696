"""Decisions of people on their way to a run: small files that anyone may leave in the run folder, without its lock.

    reviews/<draft id>.json

The run takes a decision up when it next begins a round, and records it then; the file stays, so a round that is lost
before its commit loses no decision.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args
from urllib.parse import quote

from coevolve_lab.errors import StoreError
from coevolve_lab.records import Decision, Review, from_dict, to_dict
from coevolve_lab.store import run_folder, schema

FOLDER = "reviews"
MOST_BYTES = 1_000_000  # of one decision; a draft is a tenth of that at most


def post_review(run_dir: Path, review: Review) -> None:
    """Leave a decision for the run, in place of an earlier one on the same draft."""
    folder, text = Path(run_dir) / FOLDER, json.dumps(to_dict(review), indent=1)
    if len(text) > MOST_BYTES:
        raise StoreError(f"the decision on {review.draft_id!r} has {len(text)} bytes; at most {MOST_BYTES} are taken")
    with run_folder.writing(folder):
        folder.mkdir(exist_ok=True)
    run_folder.write_text(folder / _name(review.draft_id), text)


def posted_reviews(run_dir: Path) -> dict[str, Review]:
    """All decisions that were ever left, by draft. Raises StoreError naming a file that cannot be read."""
    found = {}
    for path in sorted((Path(run_dir) / FOLDER).glob("*.json")):
        try:
            if path.stat().st_size > MOST_BYTES:
                raise ValueError(f"longer than {MOST_BYTES} bytes")
            review = from_dict(Review, json.loads(path.read_text(encoding="utf-8")))
            if review.decision not in get_args(Decision) or (review.decision == "edit") != bool(review.turns):
                raise ValueError(f"a decision {review.decision!r} with {len(review.turns)} turns")
            schema.to_frames([review])  # raises StoreError for a value of another type
            if path.name != _name(review.draft_id):
                raise ValueError(f"it is about {review.draft_id!r}")
        except (OSError, ValueError, TypeError, AttributeError, RecursionError, StoreError) as error:
            raise StoreError(f"the decision in {path} cannot be read ({error}); delete it and decide again") from error
        found[review.draft_id] = review
    return found


def _name(draft_id: str) -> str:
    return f"{quote(draft_id, safe='')}.json"
