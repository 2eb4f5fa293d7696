"""Adds up what a group of contacts has paid: a question over two apps."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from mini_world.check_parts import given_answer
from mini_world.money import pay
from mini_world.oracle_parts import every_page, login
from mini_world.people import Person
from mini_world.scenario import Case, Scenario
from mini_world.world import NOW, World

SCENARIO = Scenario(
    id="mini05",
    split="train",
    difficulty=2,
    apps=("phone", "venmo"),
    instruction=(
        "How many dollars in total have I received on Venmo from my {relationship}s since the 1st of {month} this "
        "year? My phone's contacts know who my {relationship}s are."
    ),
)


def prepare(world: World, me: Person) -> Case:
    rng = world.rng
    kinds = [kind for kind in ("roommate", "coworker", "friend") if world.contacts(me, kind)]
    relationship = world.pick(kinds)
    month, name = world.pick([(2, "February"), (3, "March"), (4, "April")])
    start = datetime(NOW.year, month, 1)
    reach = (NOW - start).days
    for other in world.contacts(me):
        for reason in rng.sample(["Rent share", "Tickets", "Dinner", "Electricity", "Fuel"], rng.randint(2, 3)):
            pay(world, other, me, rng.randint(500, 9900) / 100, reason, world.before(reach - 1))
        pay(world, other, me, rng.randint(500, 9900) / 100, "Old debt", world.before(reach + 60, reach + 2))
    givers = {world.user_id("venmo", other) for other in world.contacts(me, relationship)}
    received = world.models.venmo.Transaction.find_all(receiver_id=world.user_id("venmo", me))
    amounts = [row.amount for row in received if row.sender_id in givers and row.created_at >= start]
    return Case(public={"relationship": relationship, "month": name}, answer=round(sum(amounts), 2))


def solution(apis: Any, public: dict[str, Any]) -> None:
    phone, token = login(apis, "phone"), login(apis, "venmo")
    known = every_page(apis.phone.search_contacts, access_token=phone, relationship=public["relationship"])
    emails = {contact["email"] for contact in known}
    month = ["January", "February", "March", "April", "May"].index(public["month"]) + 1
    received = every_page(
        apis.venmo.show_transactions,
        access_token=token,
        direction="received",
        min_created_at=f"2023-{month:02}-01",
    )
    total = sum(row["amount"] for row in received if row["sender"]["email"] in emails)
    apis.supervisor.complete_task(answer=round(total, 2))


def evaluate(
    test: Any, public_data: Any, private_data: Any, main_user: Any, models: Any, ground_truth_answer: Any
) -> None:
    with test("the answer is the sum of these payments"):
        test.answer(given_answer(models), ground_truth_answer)
    with test("nothing has changed"):
        test.case(models.changed_model_names(), "==", set())
