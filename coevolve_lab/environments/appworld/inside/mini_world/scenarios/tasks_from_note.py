"""Turns the open items of a note into tasks."""

from __future__ import annotations

from typing import Any

from mini_world.check_parts import given_answer
from mini_world.oracle_parts import every_page, login
from mini_world.people import Person
from mini_world.scenario import Case, Scenario
from mini_world.todos import add_project, day
from mini_world.world import World

SCENARIO = Scenario(
    id="mini11",
    split="test_normal",
    difficulty=2,
    apps=("simple_note", "todoist"),
    instruction=(
        'Turn the unchecked items of my SimpleNote note "{note}" into {priority}-priority tasks of my Todoist project '
        '"{project}", due on {date}. Use the words of the note as titles, and leave the note as it is.'
    ),
)


def prepare(world: World, me: Person) -> Case:
    rng = world.rng
    note = world.pick(["Packing list", "Move-out list", "Party list", "Workshop list"])
    project = world.pick(["Summer trip", "Big weekend", "Countdown"])
    verbs, things = (
        ("Find", "Buy", "Clean", "Borrow", "Label", "Fold"),
        ("lanterns", "boxes", "glasses", "maps", "ropes"),
    )
    items = rng.sample([f"{verb} the {thing}" for verb in verbs for thing in things], rng.randint(7, 9))
    done = set(rng.sample(items, 3))
    content = "\n".join(f"[{'x' if item in done else ' '}] {item}" for item in items)
    made = world.before(20)
    fields = {"content": content, "tags": ["lists"], "created_at": made, "updated_at": made, "pinned": False}
    world.add("simple_note", "Note", user_id=world.user_id("simple_note", me), title=note, **fields)
    target = add_project(world, [me], project)
    date = day(rng.randint(3, 40)).date().isoformat()
    public = {"note": note, "project": project, "priority": world.pick(["high", "low"]), "date": date}
    return Case(public=public, private={"titles": sorted(set(items) - done), "project_id": target})


def solution(apis: Any, public: dict[str, Any]) -> None:
    notes, token = login(apis, "simple_note"), login(apis, "todoist")
    found = every_page(apis.simple_note.search_notes, access_token=notes, query=public["note"])
    note_id = next(note["note_id"] for note in found if note["title"] == public["note"])
    content = apis.simple_note.show_note(note_id=note_id, access_token=notes)["content"]
    projects = every_page(apis.todoist.show_projects, access_token=token)
    project_id = next(one["project_id"] for one in projects if one["name"] == public["project"])
    for line in content.splitlines():
        if line.startswith("[ ] "):
            apis.todoist.create_task(
                project_id=project_id,
                title=line[4:],
                priority=public["priority"],
                due_date=public["date"],
                access_token=token,
            )
    apis.supervisor.complete_task()


def evaluate(
    test: Any, public_data: Any, private_data: Any, main_user: Any, models: Any, ground_truth_answer: Any
) -> None:
    with test("the task is completed without an answer"):
        test.answer(given_answer(models), ground_truth_answer)
    with test("nothing but Todoist tasks has changed"):
        test.case(models.changed_model_names(), "==", {"todoist.Task"})
    added, updated, removed = models.changed_records("todoist.Task")
    with test("no task was altered or removed"):
        test.case(len(updated) + len(removed), "==", 0)
    with test("the new tasks are exactly the unchecked items"):
        test.case(sorted(task.title.strip() for task in added), "==", sorted(private_data.titles))
    with test("they are in the project, unfinished, of that priority and due on that day"):
        expected = {(private_data.project_id, public_data.priority, False, public_data.date)}
        found = {(task.project_id, task.priority, task.is_completed, str(task.due_date)[:10]) for task in added}
        test.case(found, "==", expected)
