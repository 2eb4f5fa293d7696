"""The phone: contacts with their relationships, small talk, and alarms."""

from __future__ import annotations

from mini_world.people import Person, relationships
from mini_world.world import World

DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_TALK = (
    "Are you around this weekend?",
    "Thanks again for the lift!",
    "I left my umbrella at yours.",
    "The concert was great, we should go more often.",
    "Running ten minutes late, sorry.",
    "Did you see the moon last night?",
    "Happy to help with the move.",
    "Call me when you have a minute.",
    "The bakery on the corner is open again.",
    "Remind me to give you the book back.",
)


def fill_phone(world: World, me: Person) -> None:
    rng = world.rng
    user = world.user_id("phone", me)
    rows = []
    for other in world.contacts(me):
        address = ", ".join(str(part) for part in other.home.values())
        rows.append(
            {
                "user_id": user,
                "first_name": other.first_name,
                "last_name": other.last_name,
                "email": other.email,
                "phone_number": other.phone_number,
                "relationships": relationships(me, other),
                "birthday": other.birthday,
                "home_address": address,
                "created_at": world.before(700, 350),
            }
        )
    rng.shuffle(rows)
    world.add_all("phone", "Contact", rows)
    for other in rng.sample(world.contacts(me), 4):
        world.message(me, other, rng.choice(_TALK), world.before(60, 1))
    alarms = [("07:45", list(DAYS[:5]), "Commute"), ("21:30", list(DAYS), "Vitamins"), ("09:30", ["sunday"], "Market")]
    for time, days, label in alarms:
        add_alarm(world, me, time, days, label, enabled=rng.random() < 0.7)


def add_alarm(world: World, me: Person, time: str, days: list[str], label: str, enabled: bool) -> int:
    fields = {"time": time, "repeat_days": days, "label": label, "enabled": enabled, "vibration": True}
    user = world.user_id("phone", me)
    made = world.before(300, 30)
    return int(world.add("phone", "Alarm", user_id=user, snooze_minutes=10, created_at=made, **fields).id)
