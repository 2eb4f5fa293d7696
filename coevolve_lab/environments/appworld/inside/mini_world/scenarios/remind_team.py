"""Texts each member of a project the titles of their late tasks."""

from __future__ import annotations

from typing import Any

from mini_world.check_parts import given_answer
from mini_world.oracle_parts import date_today, every_page, login
from mini_world.people import Person
from mini_world.scenario import Case, Scenario
from mini_world.todos import add_project, add_tasks, day
from mini_world.world import World

SCENARIO = Scenario(
    id="mini15",
    split="test_challenge",
    difficulty=3,
    apps=("phone", "todoist"),
    instruction=(
        'Remind my team: send a text message to everyone who is behind in my Todoist project "{project}", that is, who '
        'has been assigned an unfinished task there that was due before today. The message is "Overdue: " and the '
        'titles of these tasks, the longest overdue first, with ", " between them.'
    ),
)


def prepare(world: World, me: Person) -> Case:
    rng = world.rng
    team = rng.sample(world.contacts(me), 4)
    name = world.pick(["Harbor festival", "Museum night", "Charity run", "Street fair"])
    late, punctual = team[:3], team[3]
    actions, things = (
        ("Book", "Confirm", "Design", "Print", "Cost"),
        ("the stage", "posters", "permits", "catering", "maps"),
    )
    titles = rng.sample([f"{action} {thing}" for action in actions for thing in things], 14)
    messages = {}
    rows = []

    def assign(person: Person, due: int, finished: bool) -> str:
        title = titles.pop()
        user = world.user_id("todoist", person)
        fields = {"assignee_id": user, "assigner_id": world.user_id("todoist", me), "is_completed": finished}
        rows.append({"title": title, "due_date": day(due), "priority": rng.choice(["high", "medium"]), **fields})
        return title

    for person in late:
        dues = sorted(rng.sample(range(-30, -1), rng.randint(1, 3)))
        messages[person.phone_number] = "Overdue: " + ", ".join(assign(person, due, False) for due in dues)
    assign(late[0], -5, True)
    assign(late[1], 4, False)
    assign(punctual, -3, True)
    assign(punctual, 0, False)
    assign(me, -2, True)
    rng.shuffle(rows)
    project = add_project(world, [me, *team], name)
    add_tasks(world, project, me, rows)
    return Case(public={"project": name}, private={"messages": messages})


def solution(apis: Any, public: dict[str, Any]) -> None:
    phone, token, today = login(apis, "phone"), login(apis, "todoist"), date_today(apis)
    projects = every_page(apis.todoist.show_projects, access_token=token)
    project = next(one for one in projects if one["name"] == public["project"])
    numbers = {one["email"]: one["phone_number"] for one in every_page(apis.phone.search_contacts, access_token=phone)}
    for member in project["collaborators"]:
        if member["email"] in numbers:
            shown = apis.todoist.show_tasks(
                project_id=project["project_id"],
                assignee_email=member["email"],
                is_completed=False,
                sort_by="+due_date",
                access_token=token,
            )
            late = [task["title"] for task in shown["no_section_tasks"] if task["due_date"][:10] < today]
            if late:
                apis.phone.send_text_message(
                    phone_number=numbers[member["email"]],
                    message="Overdue: " + ", ".join(late),
                    access_token=phone,
                )
    apis.supervisor.complete_task()


def evaluate(
    test: Any, public_data: Any, private_data: Any, main_user: Any, models: Any, ground_truth_answer: Any
) -> None:
    with test("the task is completed without an answer"):
        test.answer(given_answer(models), ground_truth_answer)
    with test("nothing but text messages has changed"):
        expected = {"phone.GlobalTextMessage", "phone.UserTextMessage"}
        test.case(models.changed_model_names(), "==", expected)
    added, updated, removed = models.changed_records("phone.GlobalTextMessage")
    with test("no message was altered or removed"):
        test.case(len(updated) + len(removed), "==", 0)
    with test("all are from the supervisor"):
        test.case({text.sender_id for text in added}, "==", {models.start.phone.User.find_from(main_user).id})
    with test("everyone who is behind, and nobody else, was sent the right words once"):
        numbers = {user.id: user.phone_number for user in models.start.phone.User.all()}
        found = sorted((numbers[text.receiver_id], text.message.strip()) for text in added)
        test.case(found, "==", sorted(dict(private_data.messages).items()))
