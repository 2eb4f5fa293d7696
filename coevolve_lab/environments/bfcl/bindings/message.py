"""MessageAPI: a workspace of users with ids USR001, USR002, ... and a shared inbox of {receiver id: text}."""

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
)
from coevolve_lab.environments.bfcl.names import Names


def start(names: Names, rng: random.Random) -> dict[str, Any]:
    users = distinct(lambda: names.person(rng), rng.randint(3, 6))
    ids = [f"USR{index:03d}" for index in range(1, len(users) + 1)]
    inbox = [{rng.choice(ids[1:]): names.text(rng)} for _ in range(rng.randint(1, 3))]
    return {
        "user_count": len(users),
        "user_map": dict(zip(users, ids, strict=True)),
        "inbox": inbox,
        "message_count": len(inbox),
        "current_user": ids[0] if chance(rng, LOGGED_IN_SHARE) else None,
        "random_seed": rng.randint(1, 99999),
    }


def _user(api: Any, _names: Names, rng: random.Random) -> Arguments | None:
    user = pick(rng, api.user_map)
    return None if user is None else {"user": user}


def _login(api: Any, _names: Names, rng: random.Random) -> Arguments | None:
    user_id = pick(rng, [value for value in api.user_map.values() if value != api.current_user])
    return None if user_id is None else {"user_id": user_id}


def _send(api: Any, names: Names, rng: random.Random) -> Arguments | None:
    receiver = pick(rng, [value for value in api.user_map.values() if value != api.current_user])
    if not api.current_user or receiver is None:
        return None
    return {"receiver_id": receiver, "message": names.text(rng)}


def _delete(api: Any, _names: Names, rng: random.Random) -> Arguments | None:
    receiver = pick(rng, [next(iter(message)) for message in api.inbox])
    return None if not api.current_user or receiver is None else {"receiver_id": receiver}


def _search(api: Any, names: Names, rng: random.Random) -> Arguments | None:
    if not api.current_user:
        return None
    words = [word for message in api.inbox for word in next(iter(message.values())).split()]
    return {"keyword": pick(rng, words) or names.word(rng)}


def _if_logged_in(api: Any, _names: Names, _rng: random.Random) -> Arguments | None:
    return {} if api.current_user else None


def _add(api: Any, names: Names, rng: random.Random) -> Arguments | None:
    if f"USR{api.user_count + 1:03d}" in api.user_map.values():
        return None
    name = names.fresh(names.person, rng, api.user_map)
    return None if name is None else {"user_name": name}


BINDERS: dict[str, Binder] = {
    "add_contact": _add, "delete_message": _delete, "get_message_stats": _if_logged_in, "get_user_id": _user,
    "list_users": no_arguments, "message_get_login_status": no_arguments, "message_login": _login,
    "search_messages": _search, "send_message": _send, "view_messages_sent": _if_logged_in,
}  # fmt: skip
