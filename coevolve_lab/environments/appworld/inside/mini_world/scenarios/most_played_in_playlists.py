"""Finds the extreme song of all playlists: a question."""

from __future__ import annotations

from typing import Any

from mini_world.check_parts import given_answer
from mini_world.oracle_parts import every_page, login
from mini_world.people import Person
from mini_world.scenario import Case, Scenario
from mini_world.world import World

SCENARIO = Scenario(
    id="mini02",
    split="train",
    difficulty=2,
    apps=("spotify",),
    instruction="What is the title of the {extreme} song in all of my Spotify playlists taken together?",
)


def prepare(world: World, me: Person) -> Case:
    spotify, user = world.models.spotify, world.user_id("spotify", me)
    songs = {}
    for playlist in spotify.Playlist.find_all(user_id=user):
        for entry in spotify.PlaylistSong.find_all(playlist_id=playlist.id):
            songs[entry.song_id] = spotify.Song.by_id(entry.song_id)
    extreme = world.pick(["most played", "least played", "longest", "oldest"])
    field = {"longest": "duration", "oldest": "release_date"}.get(extreme, "play_count")
    ranked = sorted(songs.values(), key=lambda song: getattr(song, field))
    return Case(public={"extreme": extreme}, answer=ranked[0 if extreme in ("least played", "oldest") else -1].title)


def solution(apis: Any, public: dict[str, Any]) -> None:
    token, extreme = login(apis, "spotify"), public["extreme"]
    songs = {}
    for playlist in every_page(apis.spotify.show_playlist_library, access_token=token):
        for song_id in playlist["song_ids"]:
            songs[song_id] = apis.spotify.show_song(song_id=song_id)
    field = {"longest": "duration", "oldest": "release_date"}.get(extreme, "play_count")
    ranked = sorted(songs.values(), key=lambda song: song[field])
    apis.supervisor.complete_task(answer=ranked[0 if extreme in ("least played", "oldest") else -1]["title"])


def evaluate(
    test: Any, public_data: Any, private_data: Any, main_user: Any, models: Any, ground_truth_answer: Any
) -> None:
    with test("the answer is the title of that song"):
        test.answer(given_answer(models), ground_truth_answer)
    with test("nothing has changed"):
        test.case(models.changed_model_names(), "==", set())
