"""Removes downloads by length, except those of followed artists."""

from __future__ import annotations

from typing import Any

from mini_world.check_parts import given_answer
from mini_world.oracle_parts import every_page, login
from mini_world.people import Person
from mini_world.scenario import Case, Scenario
from mini_world.world import World

SCENARIO = Scenario(
    id="mini10",
    split="test_normal",
    difficulty=2,
    apps=("spotify",),
    instruction=(
        "My Spotify storage is full. Remove all downloaded songs {bound} {minutes} minutes, except for those of "
        "artists that I follow."
    ),
)


def prepare(world: World, me: Person) -> Case:
    spotify, user = world.models.spotify, world.user_id("spotify", me)
    bound, minutes = world.pick([("longer than", 4), ("shorter than", 5), ("longer than", 3), ("shorter than", 6)])
    followed = {row.artist_id for row in spotify.UserArtistFollowing.find_all(user_id=user)}
    removed = []
    for row in spotify.UserDownloadedSong.find_all(user_id=user):
        song = spotify.Song.by_id(row.song_id)
        fits = song.duration > 60 * minutes if bound == "longer than" else song.duration < 60 * minutes
        if fits and not followed & set(song.artist_ids):
            removed.append(song.id)
    return Case(public={"bound": bound, "minutes": minutes}, private={"song_ids": sorted(removed)})


def solution(apis: Any, public: dict[str, Any]) -> None:
    token, limit = login(apis, "spotify"), 60 * public["minutes"]
    followed = {one["artist_id"] for one in every_page(apis.spotify.show_following_artists, access_token=token)}
    for song in every_page(apis.spotify.show_downloaded_songs, access_token=token):
        fits = song["duration"] > limit if public["bound"] == "longer than" else song["duration"] < limit
        if fits and not followed & {artist["id"] for artist in song["artists"]}:
            apis.spotify.remove_downloaded_song(song_id=song["song_id"], access_token=token)
    apis.supervisor.complete_task()


def evaluate(
    test: Any, public_data: Any, private_data: Any, main_user: Any, models: Any, ground_truth_answer: Any
) -> None:
    with test("the task is completed without an answer"):
        test.answer(given_answer(models), ground_truth_answer)
    with test("nothing but downloads has changed"):
        test.case(models.changed_model_names(), "==", {"spotify.UserDownloadedSong"})
    added, updated, removed = models.changed_records("spotify.UserDownloadedSong")
    owner = models.start.spotify.User.find_from(main_user)
    with test("nothing was downloaded"):
        test.case(len(added) + len(updated), "==", 0)
    with test("exactly the songs of that length by artists that are not followed were removed"):
        test.case(sorted(row.song_id for row in removed), "==", sorted(private_data.song_ids))
        test.case({row.user_id for row in removed}, "==", {owner.id})
