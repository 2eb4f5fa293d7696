"""Venmo: everybody's balance, card and friends, and what they paid each other over the last months."""

from __future__ import annotations

from datetime import datetime

from mini_world.people import Person
from mini_world.world import World

_REASONS = (
    "Coffee",
    "Cinema",
    "Groceries",
    "Taxi",
    "Lunch",
    "Board game night",
    "Flowers",
    "Parking",
    "Museum",
    "Pizza",
)


def open_wallet(world: World, me: Person) -> None:
    """To be called for everybody before ``fill_money``: money is sent to people who have an account."""
    user = world.models.venmo.User.find_one_or_raise(email=me.email)
    user.venmo_balance = float(world.rng.randint(900, 2400))
    user.save()
    world.add("venmo", "PaymentCard", user_id=user.id, **me.card)
    rows = [{"user_id": user.id, "friend_id": world.user_id("venmo", other)} for other in world.contacts(me)]
    world.add_all("venmo", "Friendship", rows)


def fill_money(world: World, me: Person) -> None:
    rng = world.rng
    for other in rng.sample(world.contacts(me), 5):
        pay(world, me, other, rng.randint(400, 6000) / 100, rng.choice(_REASONS), world.before(130, 2))
    other = rng.choice(world.contacts(me))
    request(world, me, other, rng.randint(400, 6000) / 100, rng.choice(_REASONS), world.before(90, 60), approved=True)


def pay(world: World, sender: Person, receiver: Person, amount: float, reason: str, at: datetime) -> int:
    """A past transaction; balances are taken to be those after it."""
    parts = {"sender_id": world.user_id("venmo", sender), "receiver_id": world.user_id("venmo", receiver)}
    fields = {"amount": amount, "description": reason, "created_at": at, "updated_at": at}
    return int(world.add("venmo", "Transaction", private=world.rng.random() < 0.3, **parts, **fields).id)


def request(
    world: World, sender: Person, receiver: Person, amount: float, reason: str, at: datetime, approved: bool = False
) -> int:
    """A payment request, pending unless it was approved."""
    parts = {"sender_id": world.user_id("venmo", sender), "receiver_id": world.user_id("venmo", receiver)}
    fields = {"amount": amount, "description": reason, "created_at": at, "updated_at": at}
    return int(world.add("venmo", "PaymentRequest", **parts, **fields, approved_at=at if approved else None).id)
