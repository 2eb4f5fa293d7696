"""TravelAPI: a traveller with credit cards and bookings; most calls carry the access token."""

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
from coevolve_lab.environments.bfcl.vocabulary import (
    AIRPORT_CITIES,
    CABINS,
    CURRENCIES,
    DEAREST_ECONOMY,
    ROUTES,
)

GRANTS = ("read_write", "read", "write")
INSURANCES = ("travel", "medical", "luggage")


def start(names: Names, rng: random.Random) -> dict[str, Any]:
    logged_in = chance(rng, LOGGED_IN_SHARE)
    first, last = names.person(rng), rng.choice(names.surnames)
    cards = {
        str(card_id): {
            "card_number": str(names.number(rng, 10**7, 10**8)),
            "expiration_date": _expiry(rng),
            "cardholder_name": f"{first} {last}",
            "card_verification_number": names.number(rng, 100, 999),
            "balance": rng.randint(3, 25) * 1000,
        }
        for card_id in distinct(lambda: names.number(rng, 1000, 9999), rng.randint(1, 2))
    }
    bookings = {
        str(booking_id): _booking(names, rng, rng.choice(list(cards)))
        for booking_id in distinct(lambda: names.number(rng, 10000, 99999), rng.randint(1, 2))
    }
    return {
        "random_seed": rng.randint(1, 99999),
        "credit_card_list": cards,
        "booking_record": bookings,
        "access_token": str(names.number(rng, 100000, 999999)) if logged_in else None,
        "token_type": "Bearer" if logged_in else None,
        "token_expires_in": 3600 if logged_in else None,
        "token_scope": "read_write" if logged_in else None,
        "user_first_name": first if logged_in else None,
        "user_last_name": last if logged_in else None,
        "budget_limit": rng.randint(2, 20) * 100.0 if chance(rng, 0.6) else None,
    }


def _booking(names: Names, rng: random.Random, card_id: str) -> dict[str, Any]:
    origin, destination = rng.choice(ROUTES)
    return {
        "card_id": card_id,
        "travel_date": _date(rng),
        "travel_from": origin,
        "travel_to": destination,
        "travel_class": rng.choice(tuple(CABINS)),
        "travel_cost": rng.randint(10, 90) * 10.0,
        "transaction_id": str(names.number(rng, 10**7, 10**8)),
    }


def _date(rng: random.Random) -> str:
    return f"2025-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"


def _expiry(rng: random.Random) -> str:
    return f"{rng.randint(1, 12):02d}/{rng.randint(2027, 2032)}"


def _token(api: Any) -> Arguments | None:
    return {"access_token": api.access_token} if api.access_token and api.token_expires_in else None


def _authenticate(api: Any, names: Names, rng: random.Random) -> Arguments | None:
    if api.access_token is not None:
        return None
    return {
        "client_id": names.noun(rng),
        "client_secret": names.password(rng),
        "refresh_token": names.password(rng),
        "grant_type": rng.choice(GRANTS),
        "user_first_name": names.person(rng),
        "user_last_name": rng.choice(names.surnames),
    }


def _with_token(api: Any, _names: Names, _rng: random.Random) -> Arguments | None:
    return _token(api)


def _register(api: Any, names: Names, rng: random.Random) -> Arguments | None:
    token = _token(api)
    if token is None:
        return None
    return {
        **token,
        "card_number": str(names.number(rng, 10**7, 10**8)),
        "expiration_date": _expiry(rng),
        "cardholder_name": f"{names.person(rng)} {rng.choice(names.surnames)}",
        "card_verification_number": names.number(rng, 100, 999),
    }


def _flight_cost(_api: Any, _names: Names, rng: random.Random) -> Arguments:
    origin, destination = rng.choice(ROUTES)
    cabin = rng.choice(tuple(CABINS))
    return {"travel_from": origin, "travel_to": destination, "travel_date": _date(rng), "travel_class": cabin}


def _balance(api: Any, _names: Names, rng: random.Random) -> Arguments | None:
    token, card_id = _token(api), pick(rng, api.credit_card_list)
    return None if token is None or card_id is None else {**token, "card_id": card_id}


def _book(api: Any, _names: Names, rng: random.Random) -> Arguments | None:
    token = _token(api)
    options = [
        (card_id, cabin)
        for card_id, card in api.credit_card_list.items()
        for cabin, factor in CABINS.items()
        if card["balance"] >= max(factor * DEAREST_ECONOMY, api.budget_limit or 0)
    ]
    if token is None or not options:
        return None
    card_id, cabin = rng.choice(options)
    origin, destination = rng.choice(ROUTES)
    flight = {"travel_date": _date(rng), "travel_from": origin, "travel_to": destination, "travel_class": cabin}
    return {**token, "card_id": card_id, **flight}


def _invoice(api: Any, _names: Names, rng: random.Random) -> Arguments | None:
    token, booking_id = _token(api), pick(rng, api.booking_record)
    return None if token is None or booking_id is None else {**token, "booking_id": booking_id}


def _budget(api: Any, _names: Names, rng: random.Random) -> Arguments | None:
    token = _token(api)
    return None if token is None else {**token, "budget_limit": rng.randint(3, 40) * 100}


def _insurance(api: Any, _names: Names, rng: random.Random) -> Arguments | None:
    found, card_id = _invoice(api, _names, rng), pick(rng, api.credit_card_list)
    most = 20 if api.budget_limit is None else min(20, int(api.budget_limit // 10))
    if found is None or card_id is None or most < 1:
        return None
    price = rng.randint(1, most) * 10
    return {**found, "insurance_type": rng.choice(INSURANCES), "insurance_cost": price, "card_id": card_id}


def _support(api: Any, names: Names, rng: random.Random) -> Arguments | None:
    booking_id = pick(rng, api.booking_record)
    return None if booking_id is None else {"booking_id": booking_id, "message": names.text(rng)}


def _exchange(_api: Any, _names: Names, rng: random.Random) -> Arguments:
    base, target = rng.sample(("USD", rng.choice(CURRENCIES)), 2)
    return {"base_currency": base, "target_currency": target, "value": rng.randint(5, 500)}


def _verify(api: Any, names: Names, rng: random.Random) -> Arguments | None:
    if not api.user_first_name or not api.user_last_name:
        return None
    return {
        "first_name": api.user_first_name,
        "last_name": api.user_last_name,
        # Grown up whatever today's date is: the official class reads the clock.
        "date_of_birth": f"{rng.randint(1955, 1999)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}",
        "passport_number": f"US{names.number(rng, 10000, 99999)}",
    }


def _city(_api: Any, _names: Names, rng: random.Random) -> Arguments:
    return {"location": rng.choice(AIRPORT_CITIES)}


def _fiscal_year(_api: Any, _names: Names, rng: random.Random) -> Arguments:
    found: Arguments = {}
    if chance(rng, 0.3):
        found["lastModifiedAfter"] = f"{rng.randint(2015, 2023)}-01-01T00:00:00"
    if chance(rng, 0.3):
        found["includeRemoved"] = "true"
    return found


BINDERS: dict[str, Binder] = {
    "authenticate_travel": _authenticate, "book_flight": _book, "cancel_booking": _invoice,
    "compute_exchange_rate": _exchange, "contact_customer_support": _support, "get_all_credit_cards": no_arguments,
    "get_booking_history": _with_token, "get_budget_fiscal_year": _fiscal_year, "get_credit_card_balance": _balance,
    "get_flight_cost": _flight_cost, "get_nearest_airport_by_city": _city, "list_all_airports": no_arguments,
    "purchase_insurance": _insurance, "register_credit_card": _register, "retrieve_invoice": _invoice,
    "set_budget_limit": _budget, "travel_get_login_status": no_arguments, "verify_traveler_information": _verify,
}  # fmt: skip
