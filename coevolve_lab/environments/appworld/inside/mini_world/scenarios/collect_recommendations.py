"""Adds songs to a playlist that a group of contacts recommended this month."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from mini_world.check_parts import given_answer
from mini_world.oracle_parts import date_today, every_page, login
from mini_world.people import Person
from mini_world.scenario import Case, Scenario
from mini_world.world import NOW, World

SCENARIO = Scenario(
    id="mini16",
    split="test_challenge",
    difficulty=3,
    apps=("phone", "spotify"),
    instruction=(
        "My {relationship}s have recommended songs to me by text message since the beginning of this month. Add those "
        'songs to my Spotify playlist "{playlist}", unless they are in it already.'
    ),
)


def prepare(world: World, me: Person) -> Case:
    rng, spotify = world.rng, world.models.spotify
    kinds = [kind for kind in ("roommate", "coworker", "friend") if len(world.contacts(me, kind)) >= 2]
    relationship = world.pick(kinds)
    playlist = rng.choice(spotify.Playlist.find_all(user_id=world.user_id("spotify", me)))
    there = {entry.song_id for entry in spotify.PlaylistSong.find_all(playlist_id=playlist.id)}
    songs = rng.sample([song for song in spotify.Song.all() if song.id not in there], 12)
    days = (NOW - datetime(NOW.year, NOW.month, 1)).days
    wanted = []

    def recommend(person: Person, song: Any, at: datetime) -> None:
        artist = spotify.Artist.by_id(song.artist_ids[0]).name
        text = rng.choice(
            ['You have to hear "{}" by {}!', 'Try "{}" by {}, it is so you.', 'On repeat here: "{}" by {}.']
        )
        world.message(person, me, text.format(song.title, artist), at)

    circle = world.contacts(me, relationship)
    for person in [*world.contacts(me), circle[-1]]:
        song = songs.pop()
        recommend(person, song, world.before(days - 1))
        wanted += [song.id] if person in circle else []
    recommend(circle[0], spotify.Song.by_id(min(there)), world.before(days - 1))
    recommend(circle[1], songs.pop(), world.before(days + 25, days + 2))
    private = {"playlist_id": playlist.id, "song_ids": sorted(wanted)}
    return Case(public={"relationship": relationship, "playlist": playlist.title}, private=private)


def solution(apis: Any, public: dict[str, Any]) -> None:
    phone, token = login(apis, "phone"), login(apis, "spotify")
    start = date_today(apis)[:8] + "01|00:00:00"
    playlists = every_page(apis.spotify.show_playlist_library, access_token=token)
    playlist = next(one for one in playlists if one["title"] == public["playlist"])
    there = set(playlist["song_ids"])
    known = every_page(apis.phone.search_contacts, access_token=phone, relationship=public["relationship"])
    for contact in known:
        messages = every_page(
            apis.phone.show_text_message_window,
            access_token=phone,
            phone_number=contact["phone_number"],
            min_datetime=start,
        )
        for message in messages:
            if message["sender"]["phone_number"] == contact["phone_number"] and message["message"].count('"') == 2:
                title, rest = message["message"].split('"')[1:]
                for song in apis.spotify.search_songs(query=title, page_limit=20):
                    named = any(rest.startswith(f" by {artist['name']}") for artist in song["artists"])
                    if song["title"] == title and named and song["song_id"] not in there:
                        apis.spotify.add_song_to_playlist(
                            playlist_id=playlist["playlist_id"], song_id=song["song_id"], access_token=token
                        )
                        there.add(song["song_id"])
    apis.supervisor.complete_task()


def evaluate(
    test: Any, public_data: Any, private_data: Any, main_user: Any, models: Any, ground_truth_answer: Any
) -> None:
    with test("the task is completed without an answer"):
        test.answer(given_answer(models), ground_truth_answer)
    with test("nothing but the songs of playlists has changed"):
        test.case(models.changed_model_names(), "==", {"spotify.PlaylistSong"})
    added, updated, removed = models.changed_records("spotify.PlaylistSong")
    with test("no song was taken out of a playlist"):
        test.case(len(updated) + len(removed), "==", 0)
    with test("exactly the songs that these people recommended in that time were added to the playlist"):
        test.case({entry.playlist_id for entry in added}, "==", {private_data.playlist_id})
        test.case(sorted(entry.song_id for entry in added), "==", sorted(private_data.song_ids))
