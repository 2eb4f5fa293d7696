"""Spotify: a catalogue that everybody shares, and each person's library, playlists, likes and queue."""

from __future__ import annotations

from datetime import datetime, timedelta

from mini_world.people import Person
from mini_world.world import World

GENRES = ("ambient", "blues", "folk", "indie", "jazz", "reggae", "soul", "techno")
_ARTISTS = (
    "Amber Foxglove",
    "Bright Harbors",
    "Cassius Wren",
    "Delta Lanterns",
    "Echo Valley Choir",
    "Felix Marlow",
    "Glass Meridian",
    "Holly Tamarind",
    "Iron Orchard",
    "Juno Saltmarsh",
    "Kestrel & Sons",
    "Luna Parade",
    "Midnight Ferry",
    "Nora Quill",
    "Opal District",
    "Paper Comets",
)
_FIRST = (
    *("Broken", "Crimson", "Distant", "Electric", "Fading", "Golden", "Hollow", "Inner", "Lonely", "Morning"),
    *("Northern", "Open", "Paper", "Quiet", "Restless", "Silver", "Tender", "Velvet", "Wandering", "Yellow"),
)
_SECOND = (
    *("Avenue", "Bridge", "Compass", "Daylight", "Ember", "Fountain", "Garden", "Horizon", "Island", "Lullaby"),
    *("Mirror", "Oasis", "Postcard", "River", "Signal", "Tide", "Umbrella", "Voyage", "Window", "Winter"),
)
_PLAYLISTS = (
    "Rainy Sundays",
    "Gym Fuel",
    "Road Trip",
    "Late Night Desk",
    "Kitchen Radio",
    "Sunrise Run",
    "Slow Evenings",
)


def fill_catalogue(world: World, singles: int = 3, albums: int = 2, per_album: int = 3) -> None:
    """``albums`` and ``singles`` for each artist; an artist has one genre, and albums keep to it."""
    rng = world.rng
    titles = [f"{first} {second}" for first in _FIRST for second in _SECOND]
    # No two songs are alike in these, so that there is one that is the longest; those of an album differ by a day.
    plays, lengths = rng.sample(range(100, 99_999), 150), rng.sample(range(125, 425), 150)
    days = rng.sample(range(0, 4800, 8), 100)
    rng.shuffle(titles)
    for number, name in enumerate(_ARTISTS):
        genre = GENRES[number % len(GENRES)]
        artist = world.add("spotify", "Artist", name=name, genre=genre, created_at=datetime(2010, 1, 1))
        for count in [per_album] * albums + [1] * singles:
            released = datetime(2010, 1, 1) + timedelta(days=days.pop())
            common = {"artist_ids": [artist.id], "genre": genre}
            album = None
            if count > 1:
                album = world.add("spotify", "Album", title=titles.pop(), release_date=released, **common)
            for place in range(count):
                world.add(
                    "spotify",
                    "Song",
                    title=titles.pop(),
                    album_id=album.id if album else None,
                    duration=lengths.pop(),
                    play_count=plays.pop(),
                    release_date=released + timedelta(days=place),
                    **common,
                )


def fill_listener(world: World, me: Person) -> None:
    rng, user = world.rng, world.user_id("spotify", me)
    songs = [song.id for song in world.models.spotify.Song.all()]
    albums = [album.id for album in world.models.spotify.Album.all()]
    artists = [artist.id for artist in world.models.spotify.Artist.all()]
    library = rng.sample(songs, rng.randint(26, 34))
    own = {"user_id": user}

    def add(model: str, field: str, chosen: list[int], moment: str, days: float) -> None:
        rows = [{**own, field: one, moment: world.before(days)} for one in chosen]
        world.add_all("spotify", model, rows)

    add("UserLibrarySong", "song_id", library, "created_at", 300)
    add("UserLibraryAlbum", "album_id", rng.sample(albums, rng.randint(3, 6)), "created_at", 300)
    add("UserArtistFollowing", "artist_id", rng.sample(artists, rng.randint(5, 8)), "created_at", 300)
    downloads = {*rng.sample(library, 8), *rng.sample(songs, 6)}
    add("UserDownloadedSong", "song_id", sorted(downloads), "downloaded_at", 120)
    for song in sorted({*rng.sample(library, 9), *rng.sample(songs, 12)}):
        world.add("spotify", "SongLike", **own, song_id=song, liked_at=world.before(300))
    for song in rng.sample(songs, 10):
        world.add("spotify", "SongReview", **own, song_id=song, rating=rng.randint(1, 5), title="", text="")
    for title in rng.sample(_PLAYLISTS, rng.randint(3, 4)):
        made = world.before(300, 30)
        playlist = world.add(
            "spotify", "Playlist", title=title, user_id=user, is_public=rng.random() < 0.3, created_at=made
        )
        chosen = rng.sample(songs, rng.randint(7, 11))
        rows = [{"playlist_id": playlist.id, "song_id": song, "added_at": world.before(30)} for song in chosen]
        world.add_all("spotify", "PlaylistSong", rows)
    queue = rng.sample(songs, 8)
    place = rng.randrange(8)
    world.add("spotify", "MusicPlayer", user_id=user, queue_song_ids=queue, cursor_position=place)
