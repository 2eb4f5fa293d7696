"""TicketAPI: a queue of tickets in several states, some of them of the user who is logged in."""

from __future__ import annotations

import random
from typing import Any

from coevolve_lab.environments.bfcl.bindings.common import (
    LOGGED_IN_SHARE,
    Arguments,
    Binder,
    chance,
    distinct,
    no_arguments,
    pick,
    some,
)
from coevolve_lab.environments.bfcl.names import Names

STATUSES = ("Open", "Closed", "Resolved")


def start(names: Names, rng: random.Random) -> dict[str, Any]:
    me, other = distinct(lambda: names.person(rng), 2)
    ids = distinct(lambda: names.number(rng, 100, 999), rng.randint(2, 4))
    queue = [
        {
            "id": ticket_id,
            "title": names.text(rng),
            "description": names.text(rng),
            "status": "Open" if position == 0 else rng.choices(STATUSES, (3, 1, 1))[0],
            "priority": rng.randint(1, 5),
            "created_by": me if chance(rng, 0.7) else other,
        }
        for position, ticket_id in enumerate(sorted(ids))
    ]
    return {
        "ticket_queue": queue,
        "ticket_counter": max(ids) + 1,
        "current_user": me if chance(rng, LOGGED_IN_SHARE) else None,
    }


def _create(api: Any, names: Names, rng: random.Random) -> Arguments | None:
    if not api.current_user:
        return None
    found: Arguments = {"title": names.text(rng)}
    if chance(rng, 0.3):
        found["description"] = names.text(rng)
    if chance(rng, 0.5):
        found["priority"] = rng.randint(2, 5)
    return found


def _ticket(api: Any, rng: random.Random, without: str = "") -> Arguments | None:
    ticket_id = pick(rng, [ticket["id"] for ticket in api.ticket_queue if ticket["status"] != without])
    return None if ticket_id is None else {"ticket_id": ticket_id}


def _get(api: Any, _names: Names, rng: random.Random) -> Arguments | None:
    return _ticket(api, rng)


def _close(api: Any, _names: Names, rng: random.Random) -> Arguments | None:
    return _ticket(api, rng, without="Closed")


def _resolve(api: Any, names: Names, rng: random.Random) -> Arguments | None:
    found = _ticket(api, rng, without="Resolved")
    return None if found is None else {**found, "resolution": names.text(rng)}


def _edit(api: Any, names: Names, rng: random.Random) -> Arguments | None:
    found = _ticket(api, rng)
    if found is None:
        return None
    news = {
        "title": names.text(rng),
        "description": names.text(rng),
        "status": rng.choice(STATUSES),
        "priority": rng.randint(1, 5),
    }
    fields = some(rng, news, 1, 1) if chance(rng, 0.75) else ["status", "priority"]
    return {**found, "updates": {field: news[field] for field in fields}}


def _login(api: Any, names: Names, rng: random.Random) -> Arguments | None:
    name = names.fresh(names.person, rng, [api.current_user])
    return None if name is None else {"username": name, "password": names.password(rng)}


def _logout(api: Any, _names: Names, _rng: random.Random) -> Arguments | None:
    return {} if api.current_user else None


def _mine(api: Any, _names: Names, rng: random.Random) -> Arguments | None:
    if not api.current_user:
        return None
    return {"status": rng.choice(STATUSES)} if chance(rng, 0.5) else {}


BINDERS: dict[str, Binder] = {
    "close_ticket": _close, "create_ticket": _create, "edit_ticket": _edit, "get_ticket": _get,
    "get_user_tickets": _mine, "logout": _logout, "resolve_ticket": _resolve, "ticket_get_login_status": no_arguments,
    "ticket_login": _login,
}  # fmt: skip
