"""Gives late tasks of one priority a new date."""

from __future__ import annotations

from typing import Any

from mini_world.check_parts import given_answer
from mini_world.oracle_parts import date_today, every_page, login
from mini_world.people import Person
from mini_world.scenario import Case, Scenario
from mini_world.todos import add_project, add_tasks, day
from mini_world.world import World

SCENARIO = Scenario(
    id="mini07",
    split="train",
    difficulty=2,
    apps=("todoist",),
    instruction=(
        'In my Todoist project "{project}", set the due date of all unfinished {priority}-priority tasks that were due '
        "before today to {date}."
    ),
)


def prepare(world: World, me: Person) -> Case:
    rng = world.rng
    name = world.pick(["Boat repairs", "Photo archive", "Wedding planning", "Roof insulation"])
    priority = world.pick(["high", "medium", "low"])
    others = [one for one in ("high", "medium", "low") if one != priority]
    rows = []
    # Each of these differs from what is asked for in at most one respect.
    for due, level, finished in [
        (-1, priority, False),
        (-rng.randint(2, 9), priority, False),
        (-rng.randint(10, 30), priority, False),
        (-rng.randint(2, 30), priority, True),
        (-rng.randint(2, 30), others[0], False),
        (-rng.randint(2, 30), others[1], False),
        (0, priority, False),
        (rng.randint(1, 20), priority, False),
        (None, priority, False),
    ]:
        title = f"{rng.choice(['Ask about', 'Check', 'Collect', 'Order'])} item {rng.randint(100, 999)}"
        due_date = None if due is None else day(due)
        rows.append({"title": title, "due_date": due_date, "priority": level, "is_completed": finished})
    late = [row["title"] for row in rows[:3]]
    rng.shuffle(rows)
    project = add_project(world, [me], name)
    add_tasks(world, project, me, rows)
    tasks = world.models.todoist.Task.find_all(project_id=project)
    date = day(rng.randint(3, 25)).date().isoformat()
    private = {"task_ids": sorted(task.id for task in tasks if task.title in late and task.priority == priority)}
    return Case(public={"project": name, "priority": priority, "date": date}, private=private)


def solution(apis: Any, public: dict[str, Any]) -> None:
    token, today = login(apis, "todoist"), date_today(apis)
    projects = every_page(apis.todoist.show_projects, access_token=token)
    project_id = next(one["project_id"] for one in projects if one["name"] == public["project"])
    shown = apis.todoist.show_tasks(
        project_id=project_id, priority=public["priority"], is_completed=False, access_token=token
    )
    tasks = shown["no_section_tasks"] + [task for section in shown["sections"] for task in section["tasks"]]
    for task in tasks:
        if task["due_date"] and task["due_date"][:10] < today:
            apis.todoist.update_task(task_id=task["task_id"], due_date=public["date"], access_token=token)
    apis.supervisor.complete_task()


def evaluate(
    test: Any, public_data: Any, private_data: Any, main_user: Any, models: Any, ground_truth_answer: Any
) -> None:
    with test("the task is completed without an answer"):
        test.answer(given_answer(models), ground_truth_answer)
    with test("nothing but Todoist tasks has changed"):
        test.case(models.changed_model_names(), "==", {"todoist.Task"})
    added, updated, removed = models.changed_records("todoist.Task")
    with test("no task was added or removed"):
        test.case(len(added) + len(removed), "==", 0)
    with test("exactly the late tasks of that priority were changed"):
        test.case(sorted(task.id for task in updated), "==", sorted(private_data.task_ids))
    with test("they have the new due date and are otherwise as they were"):
        for task in updated:
            test.case(models.changed_field_names("todoist.Task", task.id, ignore=["record_hash"]), "==", {"due_date"})
            test.case(str(task.due_date)[:10], "==", public_data.date)
