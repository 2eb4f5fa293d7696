"""Pays a debt that a text message tells of, and answers."""

from __future__ import annotations

from typing import Any

from mini_world.check_parts import given_answer
from mini_world.oracle_parts import every_page, login
from mini_world.people import Person
from mini_world.scenario import Case, Scenario
from mini_world.world import World

SCENARIO = Scenario(
    id="mini12",
    split="test_normal",
    difficulty=2,
    apps=("phone", "venmo"),
    instruction=(
        '{name} texted me what I owe for the {thing}. Pay it from my Venmo balance with the description "{thing}", '
        'and answer by text message with exactly "{reply}".'
    ),
)


def prepare(world: World, me: Person) -> Case:
    rng = world.rng
    friend, other = rng.sample(world.contacts(me), 2)
    things = ["ski trip", "boat rental", "birthday dinner", "festival tickets", "cabin weekend"]
    thing = world.pick(things)
    decoys = rng.sample([one for one in things if one != thing], 2)
    amount = rng.randint(2100, 18900) / 100
    for sender, about, owed in [
        (friend, thing, amount),
        (friend, decoys[0], rng.randint(2100, 18900) / 100),
        (other, thing, rng.randint(2100, 18900) / 100),
        (other, decoys[1], rng.randint(2100, 18900) / 100),
    ]:
        text = f"Hi {me.first_name}, your share of the {about} is ${owed:.2f}."
        world.message(sender, me, text, world.before(12, 2))
    for number in range(6):  # more than one page of talk after it
        world.message(friend, me, f"See you at {number + 1} pm?", world.before(1.5))
    reply = world.pick(["Paid, thank you!", "Just sent it.", "Done, see you soon!"])
    public = {"name": friend.name, "thing": thing, "reply": reply}
    return Case(public=public, private={"email": friend.email, "phone_number": friend.phone_number, "amount": amount})


def solution(apis: Any, public: dict[str, Any]) -> None:
    phone, token = login(apis, "phone"), login(apis, "venmo")
    known = every_page(apis.phone.search_contacts, access_token=phone)
    friend = next(one for one in known if f"{one['first_name']} {one['last_name']}" == public["name"])
    messages = every_page(apis.phone.search_text_messages, access_token=phone, phone_number=friend["phone_number"])
    text = next(one["message"] for one in messages if f"share of the {public['thing']} is" in one["message"])
    amount = float(text.rstrip(".").split("$")[1])
    apis.venmo.create_transaction(
        receiver_email=friend["email"], amount=amount, description=public["thing"], access_token=token
    )
    apis.phone.send_text_message(phone_number=friend["phone_number"], message=public["reply"], access_token=phone)
    apis.supervisor.complete_task()


def evaluate(
    test: Any, public_data: Any, private_data: Any, main_user: Any, models: Any, ground_truth_answer: Any
) -> None:
    with test("the task is completed without an answer"):
        test.answer(given_answer(models), ground_truth_answer)
    with test("nothing but what a payment and a text message change has changed"):
        expected = {"venmo.User", "venmo.Transaction", "venmo.Notification"}
        expected |= {"phone.GlobalTextMessage", "phone.UserTextMessage"}
        test.case(models.changed_model_names(), "==", expected)
    added, updated, removed = models.changed_records("venmo.Transaction")
    with test("one payment was made, from the balance"):
        test.case([len(added), len(updated), len(removed)], "==", [1, 0, 0])
        test.case([row.payment_card_digits for row in added], "==", [None])
    with test("it is from the supervisor to that person, of the right amount and description"):
        sender = models.start.venmo.User.find_from(main_user)
        receiver = models.start.venmo.User.find_one(email=private_data.email)
        found = [(row.sender_id, row.receiver_id, row.amount, row.description) for row in added]
        test.case(found, "==", [(sender.id, receiver.id, private_data.amount, public_data.thing)])
    texts, changed, deleted = models.changed_records("phone.GlobalTextMessage")
    with test("one message was sent, to that person and with these words"):
        writer = models.start.phone.User.find_from(main_user)
        reader = models.start.phone.User.find_one(phone_number=private_data.phone_number)
        sent = [(text.sender_id, text.receiver_id, text.message) for text in texts]
        test.case(sent, "==", [(writer.id, reader.id, public_data.reply)])
        test.case(len(changed) + len(deleted), "==", 0)
