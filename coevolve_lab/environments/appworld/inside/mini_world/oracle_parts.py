"""What all oracles use; the source of each function is written into every task's ``solution.py``."""

from __future__ import annotations

from typing import Any


def login(apis: Any, app: str) -> str:
    profile = apis.supervisor.show_profile()
    passwords = {entry["account_name"]: entry["password"] for entry in apis.supervisor.show_account_passwords()}
    username = profile["phone_number"] if app == "phone" else profile["email"]
    token = apis[app].login(username=username, password=passwords[app])["access_token"]
    return str(token)


def every_page(api: Any, **arguments: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    page = 0
    while True:
        rows = api(page_index=page, page_limit=20, **arguments)
        if not rows:
            return found
        found += rows
        page += 1


def date_today(apis: Any) -> str:
    """As in 2023-05-18; the phone says "Thursday, May 18, 2023"."""
    _, day, year = apis.phone.get_current_date_and_time()["date"].split(", ")
    month, number = day.split(" ")
    place = "JanFebMarAprMayJunJulAugSepOctNovDec".index(month[:3]) // 3
    return f"{year}-{place + 1:02}-{int(number):02}"
