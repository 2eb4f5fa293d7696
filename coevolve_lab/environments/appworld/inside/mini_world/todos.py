"""Todoist: an inbox and two projects of one's own for each person, and one that a group of coworkers shares."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from mini_world.people import Person
from mini_world.world import NOW, World

_PROJECTS = {
    "Balcony garden": (
        "Repot the basil",
        "Order tomato seeds",
        "Build a trellis",
        "Fix the watering can",
        "Buy compost",
    ),
    "Half marathon": ("Book the train", "Buy new socks", "Long run on Sunday", "Register online", "Stretching plan"),
    "Spring cleaning": (
        "Sort winter clothes",
        "Wash the curtains",
        "Empty the attic",
        "Donate books",
        "Clean the oven",
    ),
    "Kitchen makeover": ("Measure the counter", "Pick tiles", "Call the plumber", "Compare fridges", "Paint samples"),
    "Language course": ("Unit 4 exercises", "Find a tandem", "Buy the workbook", "Record a dialogue", "Book the exam"),
    "Camping weekend": ("Check the stove", "Borrow a tent", "Plan the route", "Freeze water bottles", "Pack the lamps"),
}
_INBOX = ("Renew the library card", "Return the parcel", "Call the landlord", "Print photos", "Cancel the trial")


def fill_todos(world: World, me: Person) -> None:
    rng = world.rng
    inbox = add_project(world, [me], "Inbox", is_inbox=True)
    add_tasks(world, inbox, me, [random_task(world, title) for title in rng.sample(_INBOX, 3)])
    for name in rng.sample(sorted(_PROJECTS), 2):
        project = add_project(world, [me], name)
        titles = rng.sample(_PROJECTS[name], rng.randint(4, 5))
        add_tasks(world, project, me, [random_task(world, title) for title in titles])


def add_project(world: World, members: list[Person], name: str, **fields: Any) -> int:
    """A project of the first member that all of them collaborate in. Returns its id."""
    users = [world.user_id("todoist", member) for member in members]
    made = world.before(200, 40)
    project = world.add("todoist", "Project", user_id=users[0], name=name, created_at=made, **fields)
    for user in users:
        world.add("todoist", "ProjectCollaboratorLink", project_id=project.id, user_id=user, created_at=made)
    return int(project.id)


def add_tasks(world: World, project: int, creator: Person, rows: list[dict[str, Any]]) -> None:
    """Appends tasks to an empty project, in this order."""
    user = world.user_id("todoist", creator)
    common = {"project_id": project, "user_id": user, "created_at": world.before(40, 35)}
    world.add_all("todoist", "Task", [{**common, "order_index": place, **row} for place, row in enumerate(rows)])


def random_task(world: World, title: str) -> dict[str, Any]:
    rng = world.rng
    due = day(rng.randint(-25, 40)) if rng.random() < 0.8 else None
    return {
        "title": title,
        "description": "",
        "due_date": due,
        "priority": rng.choice(["high", "medium", "low"]),
        "is_completed": rng.random() < 0.3,
    }


def day(offset: int) -> datetime:
    """Midnight of the day that many days after today."""
    return datetime(NOW.year, NOW.month, NOW.day) + timedelta(days=offset)
