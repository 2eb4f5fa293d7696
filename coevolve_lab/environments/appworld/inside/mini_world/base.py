"""The world that all tasks start from: everybody's accounts, and what has gathered in them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from mini_world import files, money, music, notes, phones, todos
from mini_world.people import ACCOUNTS, Person
from mini_world.world import World


def fill_base(world: World, docs: list[dict[str, Any]]) -> None:
    """``docs`` are those of the APIs, which agents look up through an API of their own."""
    names = {"app_name": "app_name_"}  # the model's field; the documentation calls it as an agent would
    rows = [{names.get(name, name): value for name, value in doc.items()} for doc in docs]
    world.add_all("api_docs", "ApiDoc", rows)
    for person in world.people:
        _fill_admin(world, person)
        _open_accounts(world, person)
    music.fill_catalogue(world)
    for person in world.people:
        money.open_wallet(world, person)
    for person in world.people:
        music.fill_listener(world, person)
        notes.fill_notes(world, person)
        todos.fill_todos(world, person)
        files.fill_files(world, person)
        phones.fill_phone(world, person)
        money.fill_money(world, person)


def _fill_admin(world: World, person: Person) -> None:
    """The package's register of people, which checks start from; agents cannot see it."""
    user = world.add(
        "admin",
        "MainUser",
        first_name=person.first_name,
        last_name=person.last_name,
        email=person.email,
        phone_number=person.phone_number,
        birthday=person.birthday,
        sex=person.sex,
    )
    world.add("admin", "PaymentCard", main_user_id=user.id, balance=float(world.rng.randint(2000, 9000)), **person.card)
    for app, password in person.passwords.items():
        world.add("admin", "AccountPassword", main_user_id=user.id, account_name=app, password=password)


def _open_accounts(world: World, person: Person) -> None:
    made = world.before(900, 400)
    for app in ACCOUNTS:
        fields = {
            "first_name": person.first_name,
            "last_name": person.last_name,
            "password": person.passwords[app],
            "created_at": made,
            "last_logged_in": datetime(2023, 5, 1),
        }
        if app == "phone":
            world.add(app, "User", phone_number=person.phone_number, **fields)
        else:
            world.add(app, "User", email=person.email, verified=True, **fields)
