"""The open databases of the world: of its common base, or of one task while it is prepared."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from mini_world.people import Person, relationships

NOW = datetime(2023, 5, 18, 12, 0)  # in the world; clocks are frozen there
T = TypeVar("T")


class World:
    """``models`` are the package's models by app, bound to the databases that are open.

    ``rng`` is the task's own. ``theme`` names the scenario and ``variant`` counts its tasks from 0: see ``pick``.
    """

    def __init__(
        self, models: Any, people: list[Person], rng: random.Random, theme: str = "", variant: int = 0
    ) -> None:
        self.models = models
        self.people = people
        self.rng = rng
        self.theme = theme
        self.variant = variant

    def pick(self, options: Sequence[T]) -> T:
        """One of the options, another one for each task of the scenario as long as there are enough of them."""
        shuffled = list(options)
        random.Random(f"{self.theme} {len(shuffled)} {shuffled[0]}").shuffle(shuffled)
        return shuffled[self.variant % len(shuffled)]

    def user_id(self, app: str, person: Person) -> int:
        by = {"phone_number": person.phone_number} if app == "phone" else {"email": person.email}
        return int(self.models[app].User.find_one_or_raise(**by).id)

    def contacts(self, person: Person, relationship: str | None = None) -> list[Person]:
        known = [other for other in self.people if relationships(person, other)]
        return [other for other in known if relationship is None or relationship in relationships(person, other)]

    def before(self, days: float = 0, least: float = 0) -> datetime:
        """A random moment at most ``days`` and at least ``least`` days before now, on a whole minute."""
        minutes = self.rng.randint(max(1, int(least * 1440)), max(1, int(days * 1440)))
        return NOW - timedelta(minutes=minutes)

    def add(self, app: str, model: str, **fields: Any) -> Any:
        return self.models[app][model].create_save(**fields)

    def add_all(self, app: str, model: str, rows: list[dict[str, Any]]) -> None:
        """Many at once, which is twice as fast: for models whose records change no others."""
        kind = self.models[app][model]
        kind.save_all([kind(**row) for row in rows])

    def message(self, sender: Person, receiver: Person, text: str, at: datetime) -> None:
        """A text message, as both of them see it."""
        parts = {"sender_id": self.user_id("phone", sender), "receiver_id": self.user_id("phone", receiver)}
        whole = self.add("phone", "GlobalTextMessage", **parts, message=text, created_at=at)
        for user in parts.values():
            self.add("phone", "UserTextMessage", global_text_message_id=whole.id, user_id=user, created_at=at)
