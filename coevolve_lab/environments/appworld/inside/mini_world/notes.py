"""SimpleNote: the everyday notes of a person, among which a task's own note has to be found."""

from __future__ import annotations

from typing import Any

from mini_world.people import Person
from mini_world.world import World

_BOOKS = (
    *("The Salt Path Inn", "A Field Guide to Clouds", "Night Ferries", "The Copper Almanac", "Letters to a Baker"),
    *("Winter Arithmetic", "The Quiet Engine", "Maps for the Lost", "Orchard Years", "Small Hours"),
)
_FOODS = (
    "oats",
    "lentils",
    "spinach",
    "yoghurt",
    "eggs",
    "olive oil",
    "rye bread",
    "tomatoes",
    "tofu",
    "rice",
    "pears",
)
_GIFTS = ("a wool scarf", "a moka pot", "climbing chalk", "a star map", "tea tins", "a pocket knife", "a puzzle")
_CHORES = ("bleed the radiators", "clean the gutters", "oil the bikes", "descale the kettle", "sharpen the knives")


def fill_notes(world: World, me: Person) -> None:
    """Eight notes; all but the last two stay as they are in every task."""
    rng = world.rng
    bullet = "\n".join
    texts: list[tuple[str, str, list[str]]] = [
        ("Books to read", bullet(f"- {book}" for book in rng.sample(_BOOKS, 5)), ["reading"]),
        ("Weekly groceries", bullet(f"- {food}" for food in rng.sample(_FOODS, 6)), ["home", "food"]),
        ("Gift ideas", bullet(f"- {gift}" for gift in rng.sample(_GIFTS, 4)), ["family"]),
        ("Around the house", bullet(f"[ ] {chore}" for chore in rng.sample(_CHORES, 3)), ["home"]),
        ("Router", f"network: {me.last_name.lower()}-{rng.randint(10, 99)}\nreset: hold the button 10 s", ["home"]),
        ("Running log", bullet(f"2023-05-{day:02}: {rng.randint(4, 14)} km" for day in (2, 6, 9, 13)), ["sport"]),
        ("Quote of the month", "Well begun is half done.", []),
        ("Doctor", f"next appointment 2023-06-{rng.randint(5, 25):02} at {rng.randint(8, 16)}:30", ["health"]),
    ]
    user = world.user_id("simple_note", me)
    rows: list[dict[str, Any]] = []
    for title, content, tags in texts:
        made = world.before(200, 20)
        fields = {"user_id": user, "title": title, "content": content, "tags": tags}
        rows.append({**fields, "created_at": made, "updated_at": made, "pinned": rng.random() < 0.15})
    rng.shuffle(rows)
    world.add_all("simple_note", "Note", rows)
