"""The file system: a home folder for each person with papers, photos and downloads."""

from __future__ import annotations

from datetime import datetime

from mini_world.people import Person
from mini_world.world import World


def fill_files(world: World, me: Person) -> None:
    rng = world.rng
    user = world.user_id("file_system", me)
    world.add_all("file_system", "Directory", [{"user_id": user, "path": path} for path in ("/", "/home/", home(me))])
    photos = [f"photos/{rng.choice(['beach', 'birthday', 'hike', 'garden'])}_{n}.jpg" for n in range(1, 6)]
    downloads = [
        f"downloads/{name}" for name in rng.sample(("setup.zip", "map.pdf", "song.mp3", "menu.pdf", "font.ttf"), 3)
    ]
    papers = [f"documents/{name}" for name in ("lease.pdf", "cv.txt", "insurance/policy.pdf", "insurance/claim.txt")]
    add_files(world, me, {path: f"contents of {path}" for path in [*photos, *downloads, *papers]})


def home(me: Person) -> str:
    return f"/home/{me.first_name.lower()}/"


def add_files(world: World, me: Person, contents: dict[str, str], dates: dict[str, datetime] | None = None) -> None:
    """Files by path under the home folder, with the folders that they need; ``dates`` are of creation."""
    user = world.user_id("file_system", me)
    known = {directory.path for directory in world.models.file_system.Directory.find_all(user_id=user)}
    needed: list[str] = []
    rows = []
    for path, content in contents.items():
        full = home(me) + path
        parts = full.split("/")[1:-1]
        for depth in range(1, len(parts) + 1):
            folder = "/" + "/".join(parts[:depth]) + "/"
            if folder not in known and folder not in needed:
                needed.append(folder)
        made = (dates or {}).get(path) or world.before(300, 5)
        rows.append({"user_id": user, "path": full, "content": content, "created_at": made, "updated_at": made})
    made = world.before(500, 310)
    folders = [{"user_id": user, "path": path, "created_at": made, "updated_at": made} for path in needed]
    world.add_all("file_system", "Directory", folders)
    world.add_all("file_system", "File", rows)
