"""When two executions left the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from coevolve_lab.environments.appworld.synthesized import Outcome, make_reference, same_answer, same_outcome

Changes = dict[str, dict[str, dict[str, list[Any]]]]


def changes(model: str, **rows: list[Any]) -> Changes:
    app, name = model.split(".")
    return {app: {name: {"added": [], "removed": [], "changed": [], **rows}}}


LIKED = changes("spotify.SongLike", added=[{"id": 9, "song_id": 3}])
USER = {"id": 1, "name": "Ada", "last_logged_in": "2023-01-01"}
LOGGED_IN = changes("spotify.User", changed=[[USER, {**USER, "last_logged_in": "2023-05-18"}]])


def left(*parts: Changes, answer: str | None = None) -> Outcome:
    merged: Changes = {}
    for part in parts:
        for app, models in part.items():
            merged.setdefault(app, {}).update(models)
    return Outcome(merged, answer)


def test_logging_in_changes_nothing_and_anything_else_does() -> None:
    assert same_outcome(left(LIKED), left(LIKED, LOGGED_IN))
    assert same_outcome(left(), left(LOGGED_IN))
    other = changes("spotify.SongLike", added=[{"id": 9, "song_id": 4}])
    renamed = changes("spotify.User", changed=[[USER, {**USER, "name": "Eve"}]])
    note = changes("simple_note.Note", removed=[{"id": 1}])
    wrongs = (left(), left(other), left(LIKED, note), left(LIKED, renamed), left(LIKED, answer="3"))
    for wrong in wrongs:
        assert not same_outcome(left(LIKED), wrong)


def test_the_order_of_new_rows_does_not_count() -> None:
    rows = [{"id": 9, "song_id": 3}, {"id": 10, "song_id": 4}]
    swapped = [{"id": 9, "song_id": 4}, {"id": 10, "song_id": 3}]
    assert same_outcome(left(changes("spotify.Like", added=rows)), left(changes("spotify.Like", added=swapped)))
    assert not same_outcome(left(changes("spotify.Like", added=rows)), left(changes("spotify.Like", added=rows[:1])))
    removed = [left(changes("spotify.Like", removed=[row])) for row in rows]
    assert not same_outcome(*removed)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (None, None, True),
        ("3", "3.0", True),
        (" Blue Lagoon", "blue lagoon ", True),
        ("3", None, False),
        ("", None, False),
        ("3", "4", False),
        ("nan", "nan", True),
        ("a, b", "b, a", False),
    ],
)
def test_answers_are_compared_as_a_person_would(one: str | None, other: str | None, same: bool) -> None:
    assert same_answer(one, other) is same
    assert same_answer(other, one) is same


def reference(*plays: Outcome | str) -> Any:
    played: Iterator[Outcome | str] = iter(plays)
    return make_reference(lambda: next(played))


def test_a_solution_that_fails_or_differs_solves_nothing() -> None:
    good = reference(left(LIKED), left(LIKED))
    assert good.solved_by(left(LIKED))
    assert not good.solved_by(left())
    unstable = reference(left(LIKED, answer="1"), left(LIKED, answer="2"))
    failing, late = reference("a program of the solution fails"), reference(left(LIKED), "a program fails")
    for refused in (unstable, failing, late):
        assert refused.refused
        assert not any(refused.solved_by(outcome) for outcome in (left(), left(LIKED), left(LIKED, answer="1")))
