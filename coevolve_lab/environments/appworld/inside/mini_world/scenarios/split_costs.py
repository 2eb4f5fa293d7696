"""Requests from each person their share of a table of costs."""

from __future__ import annotations

from typing import Any

from mini_world.check_parts import given_answer
from mini_world.files import add_files
from mini_world.oracle_parts import every_page, login
from mini_world.people import Person
from mini_world.scenario import Case, Scenario
from mini_world.world import World

SCENARIO = Scenario(
    id="mini14",
    split="test_challenge",
    difficulty=3,
    apps=("file_system", "phone", "venmo"),
    instruction=(
        "I paid for everything in ~/documents/trips/{trip}.csv of my file system. Each row is shared evenly by the "
        "people in its last column, whom you find among my phone's contacts. On Venmo, request from each of them, in "
        'one request a person and with the description "{trip}", what they owe me in all.'
    ),
)


def prepare(world: World, me: Person) -> Case:
    rng = world.rng
    trip = world.pick(["lisbon", "dolomites", "hebrides", "bruges"])
    others = rng.sample(world.contacts(me), 4)
    owed = {other.email: 0 for other in others}
    lines = ["item,dollars,shared_by"]
    for item in rng.sample(["hotel", "fuel", "museum", "dinner", "boat", "breakfast", "parking", "guide"], 6):
        sharing = [*rng.sample(others, rng.randint(1, 3)), *([me] if rng.random() < 0.7 else [])]
        rng.shuffle(sharing)
        share = rng.randint(410, 9900)  # cents; whole, so that nothing has to be rounded
        lines.append(f"{item},{share * len(sharing) / 100:.2f},{';'.join(one.name for one in sharing)}")
        for one in sharing:
            if one != me:
                owed[one.email] += share
    add_files(world, me, {f"documents/trips/{trip}.csv": "\n".join(lines), "documents/trips/ideas.csv": "place\nporto"})
    amounts = {email: cents / 100 for email, cents in owed.items() if cents}
    return Case(public={"trip": trip}, private={"amounts": amounts})


def solution(apis: Any, public: dict[str, Any]) -> None:
    files, phone, token = login(apis, "file_system"), login(apis, "phone"), login(apis, "venmo")
    path = f"~/documents/trips/{public['trip']}.csv"
    rows = apis.file_system.show_file(file_path=path, access_token=files)["content"].splitlines()[1:]
    owed: dict[str, float] = {}
    for row in rows:
        _, dollars, people = row.split(",")
        names = people.split(";")
        for name in names:
            owed[name] = owed.get(name, 0) + float(dollars) / len(names)
    for contact in every_page(apis.phone.search_contacts, access_token=phone):
        name = f"{contact['first_name']} {contact['last_name']}"
        if name in owed:
            apis.venmo.create_payment_request(
                user_email=contact["email"],
                amount=round(owed[name], 2),
                description=public["trip"],
                access_token=token,
            )
    apis.supervisor.complete_task()


def evaluate(
    test: Any, public_data: Any, private_data: Any, main_user: Any, models: Any, ground_truth_answer: Any
) -> None:
    with test("the task is completed without an answer"):
        test.answer(given_answer(models), ground_truth_answer)
    with test("nothing but payment requests and their notifications has changed"):
        test.case(models.changed_model_names(), "==", {"venmo.PaymentRequest", "venmo.Notification"})
    added, updated, removed = models.changed_records("venmo.PaymentRequest")
    with test("no earlier request was altered or removed"):
        test.case(len(updated) + len(removed), "==", 0)
    with test("the requests are the supervisor's and have the description"):
        sender = models.start.venmo.User.find_from(main_user)
        test.case({(row.sender_id, row.description) for row in added}, "==", {(sender.id, public_data.trip)})
    with test("each person who owes something has one request of the right amount, and nobody else has any"):
        emails = {user.id: user.email for user in models.start.venmo.User.all()}
        found = sorted((emails[row.receiver_id], round(row.amount, 2)) for row in added)
        test.case(found, "==", sorted(dict(private_data.amounts).items()))
