"""Approves or denies payment requests by who sent them."""

from __future__ import annotations

from typing import Any

from mini_world.check_parts import given_answer
from mini_world.money import request
from mini_world.oracle_parts import every_page, login
from mini_world.people import Person
from mini_world.scenario import Case, Scenario
from mini_world.world import World

SCENARIO = Scenario(
    id="mini08",
    split="dev",
    difficulty=2,
    apps=("phone", "venmo"),
    instruction=(
        "Go through my pending Venmo payment requests: approve those from my {relationship}s, paying from my Venmo "
        "balance, and deny all others. My phone's contacts know who my {relationship}s are."
    ),
)


def prepare(world: World, me: Person) -> Case:
    rng = world.rng
    kinds = [kind for kind in ("roommate", "coworker", "friend") if len(world.contacts(me, kind)) >= 2]
    relationship = world.pick(kinds)
    wanted = world.contacts(me, relationship)
    chosen = [(other, True) for other in wanted] + [(rng.choice(wanted), True)]
    chosen += [(other, False) for other in rng.sample([one for one in world.contacts(me) if one not in wanted], 3)]
    rng.shuffle(chosen)
    approve: list[int] = []
    deny: list[int] = []
    for other, yes in chosen:
        reason = rng.choice(["Pizza night", "Concert", "Ski pass", "Birthday gift", "Internet bill", "Train fare"])
        made = request(world, other, me, rng.randint(700, 8000) / 100, reason, world.before(25))
        (approve if yes else deny).append(made)
        if rng.random() < 0.5:  # answered long ago
            request(world, other, me, rng.randint(700, 8000) / 100, reason, world.before(80, 40), approved=True)
    return Case(public={"relationship": relationship}, private={"approve": sorted(approve), "deny": sorted(deny)})


def solution(apis: Any, public: dict[str, Any]) -> None:
    phone, token = login(apis, "phone"), login(apis, "venmo")
    known = every_page(apis.phone.search_contacts, access_token=phone, relationship=public["relationship"])
    emails = {contact["email"] for contact in known}
    for pending in every_page(apis.venmo.show_received_payment_requests, access_token=token, status="pending"):
        wanted = pending["sender"]["email"] in emails
        answer = apis.venmo.approve_payment_request if wanted else apis.venmo.deny_payment_request
        answer(payment_request_id=pending["payment_request_id"], access_token=token)
    apis.supervisor.complete_task()


def evaluate(
    test: Any, public_data: Any, private_data: Any, main_user: Any, models: Any, ground_truth_answer: Any
) -> None:
    with test("the task is completed without an answer"):
        test.answer(given_answer(models), ground_truth_answer)
    with test("nothing but what answering payment requests changes has changed"):
        expected = {"venmo.User", "venmo.PaymentRequest", "venmo.Transaction", "venmo.Notification"}
        test.case(models.changed_model_names(), "==", expected)
    added, updated, removed = models.changed_records("venmo.PaymentRequest")
    with test("no request was added or removed"):
        test.case(len(added) + len(removed), "==", 0)
    with test("exactly those of the named people were approved"):
        test.case(sorted(row.id for row in updated if row.approved), "==", sorted(private_data.approve))
    with test("exactly the other pending ones were denied"):
        test.case(sorted(row.id for row in updated if row.denied), "==", sorted(private_data.deny))
    with test("the balance fell by the approved amounts: no card was used, and nothing else was paid"):
        approved = models.end.venmo.PaymentRequest.by_ids(list(private_data.approve))
        before = models.start.venmo.User.find_from(main_user).venmo_balance
        after = models.end.venmo.User.find_from(main_user).venmo_balance
        test.case(round(before - after, 2), "==", round(sum(row.amount for row in approved), 2))
        test.case(len(models.changed_records("venmo.Transaction")[0]), "==", len(approved))
