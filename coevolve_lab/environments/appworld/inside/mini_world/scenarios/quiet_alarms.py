"""Disables the alarms of one weekday, but for one."""

from __future__ import annotations

from typing import Any

from mini_world.check_parts import given_answer
from mini_world.oracle_parts import every_page, login
from mini_world.people import Person
from mini_world.phones import DAYS, add_alarm
from mini_world.scenario import Case, Scenario
from mini_world.world import World

SCENARIO = Scenario(
    id="mini04",
    split="train",
    difficulty=1,
    apps=("phone",),
    instruction=(
        'I want to sleep in on {day}s. Disable every alarm on my phone that rings on {day}s, except for "{kept}".'
    ),
)


def prepare(world: World, me: Person) -> Case:
    rng = world.rng
    day = world.pick(DAYS)
    labels = rng.sample(["Gym", "Trash pickup", "Stretch", "Radio show", "Feed the cat", "Water the plants"], 5)
    for place, label in enumerate(labels):
        others = rng.sample([one for one in DAYS if one != day], rng.randint(1, 3))
        days = [one for one in DAYS if one in others or (one == day and place < 3)]
        add_alarm(world, me, f"{rng.randint(5, 9):02}:{rng.choice(['05', '20', '40', '50'])}", days, label, True)
    kept = labels[rng.randrange(3)]
    alarms = world.models.phone.Alarm.find_all(user_id=world.user_id("phone", me))
    ringing = [alarm for alarm in alarms if alarm.enabled and day in alarm.repeat_days and alarm.label != kept]
    return Case(
        public={"day": day.capitalize(), "kept": kept}, private={"alarm_ids": sorted(alarm.id for alarm in ringing)}
    )


def solution(apis: Any, public: dict[str, Any]) -> None:
    token, day = login(apis, "phone"), public["day"].lower()
    for alarm in every_page(apis.phone.show_alarms, access_token=token):
        if alarm["enabled"] and day in alarm["repeat_days"] and alarm["label"] != public["kept"]:
            apis.phone.update_alarm(alarm_id=alarm["alarm_id"], enabled=False, access_token=token)
    apis.supervisor.complete_task()


def evaluate(
    test: Any, public_data: Any, private_data: Any, main_user: Any, models: Any, ground_truth_answer: Any
) -> None:
    with test("the task is completed without an answer"):
        test.answer(given_answer(models), ground_truth_answer)
    with test("nothing but alarms has changed"):
        test.case(models.changed_model_names(), "==", {"phone.Alarm"})
    added, updated, removed = models.changed_records("phone.Alarm")
    with test("no alarm was added or removed"):
        test.case(len(added) + len(removed), "==", 0)
    with test("exactly the enabled alarms of that day, but for the named one, were changed"):
        test.case(sorted(alarm.id for alarm in updated), "==", sorted(private_data.alarm_ids))
    with test("they are disabled and otherwise as they were"):
        for alarm in updated:
            test.case(models.changed_field_names("phone.Alarm", alarm.id, ignore=["record_hash"]), "==", {"enabled"})
            test.case(alarm.enabled, "==", False)
