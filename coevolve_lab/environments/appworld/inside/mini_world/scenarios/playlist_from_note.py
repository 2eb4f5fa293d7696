"""Makes a playlist from the lines of a note."""

from __future__ import annotations

from typing import Any

from mini_world.check_parts import given_answer
from mini_world.oracle_parts import every_page, login
from mini_world.people import Person
from mini_world.scenario import Case, Scenario
from mini_world.world import World

SCENARIO = Scenario(
    id="mini03",
    split="train",
    difficulty=2,
    apps=("simple_note", "spotify"),
    instruction=(
        'My note "{note}" in SimpleNote lists songs. Make a new private Spotify playlist called "{playlist}" that has '
        "exactly these songs."
    ),
)


def prepare(world: World, me: Person) -> Case:
    rng, spotify = world.rng, world.models.spotify
    songs = rng.sample(spotify.Song.all(), rng.randint(4, 6))
    lines = [f"{song.title} - {spotify.Artist.by_id(song.artist_ids[0]).name}" for song in songs]
    note = world.pick(["Songs for the party", "Songs from the radio", "Songs for the drive"])
    playlist = world.pick(["Fresh Finds", "Borrowed Tunes", "Keepers", "Found Sounds"])
    user = world.user_id("simple_note", me)
    made = world.before(9)
    fields = {"content": "\n".join(lines), "tags": ["music"], "created_at": made, "updated_at": made, "pinned": False}
    world.add("simple_note", "Note", user_id=user, title=note, **fields)
    private = {"song_ids": sorted(song.id for song in songs)}
    return Case(public={"note": note, "playlist": playlist}, private=private)


def solution(apis: Any, public: dict[str, Any]) -> None:
    notes, token = login(apis, "simple_note"), login(apis, "spotify")
    found = every_page(apis.simple_note.search_notes, access_token=notes, query=public["note"])
    note_id = next(note["note_id"] for note in found if note["title"] == public["note"])
    content = apis.simple_note.show_note(note_id=note_id, access_token=notes)["content"]
    made = apis.spotify.create_playlist(title=public["playlist"], access_token=token)
    for line in content.splitlines():
        title, artist = line.split(" - ")
        for song in apis.spotify.search_songs(query=title, page_limit=20):
            if song["title"] == title and artist in [one["name"] for one in song["artists"]]:
                apis.spotify.add_song_to_playlist(
                    playlist_id=made["playlist_id"], song_id=song["song_id"], access_token=token
                )
    apis.supervisor.complete_task()


def evaluate(
    test: Any, public_data: Any, private_data: Any, main_user: Any, models: Any, ground_truth_answer: Any
) -> None:
    with test("the task is completed without an answer"):
        test.answer(given_answer(models), ground_truth_answer)
    with test("nothing but playlists has changed"):
        test.case(models.changed_model_names(), "==", {"spotify.Playlist", "spotify.PlaylistSong"})
    added, updated, removed = models.changed_records("spotify.Playlist")
    with test("one playlist was added, and none altered or removed"):
        test.case([len(added), len(updated), len(removed)], "==", [1, 0, 0])
    with test("it has the right title and owner and is private"):
        owner = models.start.spotify.User.find_from(main_user)
        found = [(playlist.title, playlist.user_id, playlist.is_public) for playlist in added]
        test.case(found, "==", [(public_data.playlist, owner.id, False)])
    entries, altered, dropped = models.changed_records("spotify.PlaylistSong")
    with test("no other playlist has lost or changed a song"):
        test.case(len(altered) + len(dropped), "==", 0)
    with test("the new playlist has exactly the songs of the note"):
        test.case({entry.playlist_id for entry in entries}, "==", {playlist.id for playlist in added})
        test.case(sorted(entry.song_id for entry in entries), "==", sorted(private_data.song_ids))
