"""Likes songs of one genre in a library: paging, and a field that only the single songs show."""

from __future__ import annotations

from typing import Any

from mini_world.check_parts import given_answer
from mini_world.oracle_parts import every_page, login
from mini_world.people import Person
from mini_world.scenario import Case, Scenario
from mini_world.world import World

SCENARIO = Scenario(
    id="mini01",
    split="train",
    difficulty=1,
    apps=("spotify",),
    instruction="Like all {genre} songs in my Spotify song library that I have not liked yet.",
)


def prepare(world: World, me: Person) -> Case:
    spotify, user = world.models.spotify, world.user_id("spotify", me)
    liked = {like.song_id for like in spotify.SongLike.find_all(user_id=user)}
    missing: dict[str, list[int]] = {}
    for row in spotify.UserLibrarySong.find_all(user_id=user):
        song = spotify.Song.by_id(row.song_id)
        if song.id not in liked:
            missing.setdefault(song.genre, []).append(song.id)
    genre = world.pick(sorted(genre for genre, songs in missing.items() if len(songs) >= 2))
    return Case(public={"genre": genre}, private={"song_ids": sorted(missing[genre])})


def solution(apis: Any, public: dict[str, Any]) -> None:
    token = login(apis, "spotify")
    liked = {song["song_id"] for song in every_page(apis.spotify.show_liked_songs, access_token=token)}
    for entry in every_page(apis.spotify.show_song_library, access_token=token):
        song = apis.spotify.show_song(song_id=entry["song_id"])
        if song["genre"] == public["genre"] and song["song_id"] not in liked:
            apis.spotify.like_song(song_id=song["song_id"], access_token=token)
    apis.supervisor.complete_task()


def evaluate(
    test: Any, public_data: Any, private_data: Any, main_user: Any, models: Any, ground_truth_answer: Any
) -> None:
    with test("the task is completed without an answer"):
        test.answer(given_answer(models), ground_truth_answer)
    with test("nothing but likes of songs has changed"):
        test.case(models.changed_model_names(), "==", {"spotify.SongLike", "spotify.Song"})
    added, updated, removed = models.changed_records("spotify.SongLike")
    with test("no like was removed or altered"):
        test.case(len(updated) + len(removed), "==", 0)
    with test("every new like is the supervisor's"):
        user = models.start.spotify.User.find_from(main_user)
        test.case({like.user_id for like in added}, "==", {user.id})
    with test("exactly the songs of that genre in the library that were not liked yet are now liked"):
        test.case(sorted(like.song_id for like in added), "==", sorted(private_data.song_ids))
