"""Decisions as files: replaced, kept, and named when they are damaged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from coevolve_lab.errors import StoreError
from coevolve_lab.records import Review, to_dict
from coevolve_lab.store import mailbox
from coevolve_lab.store.mailbox import post_review, posted_reviews

ONE = Review("review-d1", "d1", "edit", -1, "why", "me", ("q", "r"), (("a()", "b()"), ("c()",)), 1.7e9)


def test_what_was_left_comes_back_and_a_later_decision_replaces_it(tmp_path: Path) -> None:
    assert posted_reviews(tmp_path) == {}
    post_review(tmp_path, ONE)
    other = replace(ONE, id="review-d2", draft_id="d2", decision="accept", turns=(), solution=())
    post_review(tmp_path, other)
    assert posted_reviews(tmp_path) == {"d1": ONE, "d2": other}
    later = replace(ONE, decision="reject", turns=(), solution=())
    post_review(tmp_path, later)
    assert posted_reviews(tmp_path)["d1"] == later


@pytest.mark.parametrize("name", ["../../outside", "a/b", "x%2Fy", "é ü", ".."])
def test_any_draft_id_stays_inside_the_folder(tmp_path: Path, name: str) -> None:
    run = tmp_path / "run"
    run.mkdir()
    post_review(run, replace(ONE, draft_id=name))
    assert list(posted_reviews(run)) == [name]
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert [path.name for path in run.iterdir()] == [mailbox.FOLDER]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "not json",
        "[]",
        "3",
        json.dumps({"id": "x"}),
        json.dumps({**to_dict(ONE), "verdict": "fine"}),
        json.dumps({**to_dict(ONE), "turns": 3}),
        json.dumps({**to_dict(ONE), "reason": 5}),
        json.dumps({**to_dict(ONE), "decision": "maybe"}),
        json.dumps({**to_dict(ONE), "decision": "accept"}),
        json.dumps({**to_dict(ONE), "draft_id": "d2"}),
        "[" * 100_000,
        " " * (mailbox.MOST_BYTES + 1),
    ],
)
def test_a_damaged_decision_is_named(tmp_path: Path, content: str) -> None:
    post_review(tmp_path, ONE)
    path = tmp_path / mailbox.FOLDER / "d1.json"
    path.write_text(content)
    with pytest.raises(StoreError, match=r"d1\.json cannot be read.*delete it and decide again"):
        posted_reviews(tmp_path)
    path.unlink()
    assert posted_reviews(tmp_path) == {}


def test_a_decision_that_was_cut_short_while_written_does_not_count(tmp_path: Path) -> None:
    post_review(tmp_path, ONE)
    (tmp_path / mailbox.FOLDER / "d2.json.4711.tmp").write_text('{"id": "revi')
    assert posted_reviews(tmp_path) == {"d1": ONE}


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / mailbox.FOLDER).write_text("a file in its place")
    with pytest.raises(StoreError, match="cannot write"):
        post_review(tmp_path, ONE)
