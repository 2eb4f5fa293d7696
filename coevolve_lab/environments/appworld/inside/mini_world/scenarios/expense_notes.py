"""Adds up one category over a year of notes: a question."""

from __future__ import annotations

from typing import Any

from mini_world.check_parts import given_answer
from mini_world.oracle_parts import every_page, login
from mini_world.people import Person
from mini_world.scenario import Case, Scenario
from mini_world.world import World

SCENARIO = Scenario(
    id="mini09",
    split="dev",
    difficulty=2,
    apps=("simple_note",),
    instruction=(
        'My SimpleNote notes tagged "expenses" list what I spent, one note a month. How many dollars did I spend on '
        "{category} in all of {year}?"
    ),
)

_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)


def prepare(world: World, me: Person) -> Case:
    rng = world.rng
    category = world.pick(["groceries", "transport", "clothes", "dining out"])
    year = world.pick([2021, 2022])
    total = 0
    rows = []
    for of in (2021, 2022):
        for month in _MONTHS:
            lines = []
            for _ in range(rng.randint(3, 5)):
                kind = rng.choice(["groceries", "transport", "clothes", "dining out"])
                cents = rng.randint(300, 15000)
                total += cents if (kind, of) == (category, year) else 0
                lines.append(f"{rng.randint(1, 28):02}: {kind} ${cents / 100:.2f}")
            rows.append({"title": f"Expenses {month} {of}", "content": "\n".join(sorted(lines)), "tags": ["expenses"]})
    decoy = {
        "title": f"Budget plan {year}",
        "content": f"01: {category} $50.00\n02: {category} $75.50",
        "tags": ["plans"],
    }
    user = world.user_id("simple_note", me)
    made = world.before(100, 90)
    common = {"user_id": user, "created_at": made, "updated_at": made, "pinned": False}
    rng.shuffle(rows)
    world.add_all("simple_note", "Note", [{**common, **row} for row in [*rows, decoy]])
    return Case(public={"category": category, "year": year}, answer=round(total / 100, 2))


def solution(apis: Any, public: dict[str, Any]) -> None:
    token = login(apis, "simple_note")
    cents = 0
    for note in every_page(apis.simple_note.search_notes, access_token=token, tags=["expenses"]):
        if str(public["year"]) in note["title"]:
            content = apis.simple_note.show_note(note_id=note["note_id"], access_token=token)["content"]
            for line in content.splitlines():
                category, amount = line.split(": ")[1].split(" $")
                if category == public["category"]:
                    cents += round(float(amount) * 100)
    apis.supervisor.complete_task(answer=cents / 100)


def evaluate(
    test: Any, public_data: Any, private_data: Any, main_user: Any, models: Any, ground_truth_answer: Any
) -> None:
    with test("the answer is the sum of that category in that year"):
        test.answer(given_answer(models), ground_truth_answer)
    with test("nothing has changed"):
        test.case(models.changed_model_names(), "==", set())
