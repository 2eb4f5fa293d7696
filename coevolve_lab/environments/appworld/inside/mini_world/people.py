"""Who lives in the mini world: two circles of eight people who know nobody of the other circle.

Train and dev tasks are given by people of the first circle, test tasks by people of the second, so that no name, note
or message of a test task is ever seen in training.
"""

from __future__ import annotations

import random
import string
from dataclasses import dataclass
from typing import Any

ACCOUNTS = ("amazon", "file_system", "gmail", "phone", "simple_note", "splitwise", "spotify", "todoist", "venmo")

_NAMES = (
    (
        ("Amira", "Haddad", "female"),
        ("Bruno", "Keller", "male"),
        ("Celine", "Moreau", "female"),
        ("Darius", "Oakley", "male"),
        ("Elif", "Demir", "female"),
        ("Farid", "Nasser", "male"),
        ("Greta", "Lindqvist", "female"),
        ("Hugo", "Santos", "male"),
    ),
    (
        ("Ines", "Barbosa", "female"),
        ("Jonas", "Weber", "male"),
        ("Kavya", "Raman", "female"),
        ("Lorenzo", "Ricci", "male"),
        ("Maren", "Solberg", "female"),
        ("Nikhil", "Bhatt", "male"),
        ("Oksana", "Petrenko", "female"),
        ("Pavel", "Novak", "male"),
    ),
)
_ROOMMATES = ({0, 1, 2}, {3, 4, 5}, {6, 7})  # places in a circle
_COWORKERS = ({0, 3, 6}, {1, 4, 7}, {2, 5})
_FAMILY = ({0, 7}, {2, 4})
_STREETS = ("Alder", "Birch", "Cedar", "Dogwood", "Elm", "Fir", "Hazel", "Juniper", "Larch", "Maple", "Oak", "Pine")
_CITIES = (("Fairhaven", "Oregon"), ("Millbrook", "Vermont"), ("Stonebridge", "Ohio"), ("Westlake", "Nevada"))


@dataclass(frozen=True)
class Person:
    circle: int
    place: int  # in the circle
    first_name: str
    last_name: str
    sex: str
    email: str
    phone_number: str
    birthday: str
    home: dict[str, Any]
    work: dict[str, Any]
    card: dict[str, Any]
    passwords: dict[str, str]  # by app

    @property
    def name(self) -> str:
        return f"{self.first_name} {self.last_name}"


def everybody(rng: random.Random) -> list[Person]:
    """All people, those of the first circle first."""
    people = []
    for circle, names in enumerate(_NAMES):
        for place, (first, last, sex) in enumerate(names):
            card = {
                "owner_name": f"{first} {last}",
                "card_name": rng.choice(["Visa", "MasterCard", "Discover"]),
                "card_number": rng.randrange(10**15, 10**16),
                "expiry_year": rng.randint(2025, 2029),
                "expiry_month": rng.randint(1, 12),
                "cvv_number": rng.randint(100, 999),
            }
            people.append(
                Person(
                    circle=circle,
                    place=place,
                    first_name=first,
                    last_name=last,
                    sex=sex,
                    email=f"{first}.{last}@example.com".lower(),
                    phone_number=f"{rng.randrange(2, 10)}{rng.randrange(10**8, 10**9)}",
                    birthday=f"{rng.randint(1965, 2001)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}",
                    home=_address(rng),
                    work=_address(rng),
                    card=card,
                    passwords={
                        app: "".join(rng.choices(string.ascii_letters + string.digits, k=9)) for app in ACCOUNTS
                    },
                )
            )
    return people


def relationships(one: Person, other: Person) -> list[str]:
    """What ``other`` is to ``one``, as it stands in the contacts; [] for people who do not know each other."""
    if one == other or one.circle != other.circle:
        return []
    pair = {one.place, other.place}
    kinds = (("roommate", _ROOMMATES), ("coworker", _COWORKERS), ("family", _FAMILY))
    return [kind for kind, groups in kinds if any(pair <= group for group in groups)] or ["friend"]


def _address(rng: random.Random) -> dict[str, Any]:
    city, state = rng.choice(_CITIES)
    return {
        "street_address": f"{rng.randint(1, 980)} {rng.choice(_STREETS)} Street",
        "city": city,
        "state": state,
        "country": "United States",
        "zip_code": rng.randint(10000, 99999),
    }
