"""TradingBot: an account, a handful of stocks, orders in several states, a watch list and a short history."""

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
from coevolve_lab.environments.bfcl.vocabulary import COMPANIES, SECTORS

ORDER_STATUSES = ("Completed", "Open", "Pending")
OPEN_MARKET_SHARE = 0.8


def start(names: Names, rng: random.Random) -> dict[str, Any]:
    symbols = distinct(lambda: names.symbol(rng), rng.randint(4, 6))
    stocks = {symbol: _stock(rng) for symbol in symbols}
    ids = sorted(distinct(lambda: names.number(rng, 1000, 9999), rng.randint(2, 4)))
    orders = {}
    for position, order_id in enumerate(ids):
        symbol = rng.choice(symbols)
        orders[str(order_id)] = {
            "id": order_id,
            "order_type": rng.choice(("Buy", "Sell")),
            "symbol": symbol,
            "price": stocks[symbol]["price"],
            "amount": rng.randint(1, 50),
            "status": "Open" if position == 0 else rng.choice(ORDER_STATUSES),
        }
    return {
        "orders": orders,
        "account_info": {
            "account_id": names.number(rng, 10000, 99999),
            "balance": rng.randint(20, 200) * 100.0,
            "binding_card": names.number(rng, 10**8, 10**9),
        },
        "authenticated": chance(rng, LOGGED_IN_SHARE),
        "market_status": "Open" if chance(rng, OPEN_MARKET_SHARE) else "Closed",
        "order_counter": ids[-1] + 1,
        "stocks": stocks,
        "watch_list": some(rng, symbols, 1, 3),
        "transaction_history": [_transaction(rng) for _ in range(rng.randint(0, 2))],
        "random_seed": rng.randint(1, 99999),
    }


def _stock(rng: random.Random) -> dict[str, float]:
    price = rng.randint(20, 900) + rng.choice((0.0, 0.25, 0.5, 0.75))
    return {
        "price": price,
        "percent_change": rng.randint(-60, 60) / 10,
        "volume": rng.randint(5, 50) / 10,
        "MA(5)": price + rng.randint(-4, 4),
        "MA(20)": price + rng.randint(-9, 9),
    }


def _transaction(rng: random.Random) -> dict[str, Any]:
    day, hour = rng.randint(1, 28), rng.randint(9, 17)
    return {
        "type": rng.choice(("deposit", "withdrawal")),
        "amount": rng.randint(1, 20) * 50,
        "timestamp": f"2024-08-{day:02d} {hour:02d}:30:00",
    }


def _symbol(api: Any, _names: Names, rng: random.Random) -> Arguments | None:
    symbol = pick(rng, api.stocks)
    return None if symbol is None else {"symbol": symbol}


def _company(_api: Any, _names: Names, rng: random.Random) -> Arguments:
    return {"name": rng.choice(COMPANIES)}


def _sector(_api: Any, _names: Names, rng: random.Random) -> Arguments:
    return {"sector": rng.choice(SECTORS)}


def _order(api: Any, _names: Names, rng: random.Random) -> Arguments | None:
    order_id = pick(rng, api.orders)
    return None if order_id is None else {"order_id": order_id}


def _cancel(api: Any, _names: Names, rng: random.Random) -> Arguments | None:
    order_id = pick(rng, [key for key, order in api.orders.items() if order["status"] in ("Open", "Pending")])
    return None if order_id is None else {"order_id": order_id}


def _place(api: Any, _names: Names, rng: random.Random) -> Arguments | None:
    symbol = pick(rng, api.stocks)
    if not api.authenticated or symbol is None:
        return None
    price = api.stocks[symbol]["price"]
    kind = rng.choice(("Buy", "Sell"))
    most = min(50, int(api.account_info["balance"] // price)) if kind == "Buy" else 50
    return {"order_type": kind, "symbol": symbol, "price": price, "amount": rng.randint(1, most)} if most else None


def _withdraw(api: Any, _names: Names, rng: random.Random) -> Arguments | None:
    most = min(20, int(api.account_info["balance"] // 50))
    if not api.authenticated or api.market_status != "Open" or most < 1:
        return None
    return {"amount": rng.randint(1, most) * 50}


def _fund(api: Any, _names: Names, rng: random.Random) -> Arguments | None:
    return {"amount": rng.randint(1, 40) * 50} if api.authenticated else None


def _login(api: Any, names: Names, rng: random.Random) -> Arguments | None:
    return None if api.authenticated else {"username": names.person(rng), "password": names.password(rng)}


def _if_logged_in(api: Any, _names: Names, _rng: random.Random) -> Arguments | None:
    return {} if api.authenticated else None


def _history(api: Any, _names: Names, rng: random.Random) -> Arguments | None:
    if not api.authenticated:
        return None
    found: Arguments = {}
    if chance(rng, 0.5):
        found["start_date"] = f"2024-08-{rng.randint(1, 15):02d}"
    if chance(rng, 0.4):
        found["end_date"] = f"2024-08-{rng.randint(16, 30):02d}"
    return found


def _watch(api: Any, _names: Names, rng: random.Random) -> Arguments | None:
    stock = pick(rng, [symbol for symbol in api.stocks if symbol not in api.watch_list])
    return None if stock is None else {"stock": stock}


def _unwatch(api: Any, _names: Names, rng: random.Random) -> Arguments | None:
    symbol = pick(rng, api.watch_list)
    return None if not api.authenticated or symbol is None else {"symbol": symbol}


def _filter(api: Any, _names: Names, rng: random.Random) -> Arguments:
    low = rng.randint(1, 30) * 10
    return {"stocks": some(rng, api.stocks, 2, 3), "min_price": low, "max_price": low + rng.randint(10, 60) * 10}


def _notify(api: Any, _names: Names, rng: random.Random) -> Arguments:
    return {"stocks": some(rng, api.stocks, 1, 3), "threshold": rng.randint(1, 6)}


BINDERS: dict[str, Binder] = {
    "add_to_watchlist": _watch, "cancel_order": _cancel, "filter_stocks_by_price": _filter, "fund_account": _fund,
    "get_account_info": _if_logged_in, "get_available_stocks": _sector, "get_current_time": no_arguments,
    "get_order_details": _order, "get_order_history": _if_logged_in, "get_stock_info": _symbol,
    "get_symbol_by_name": _company, "get_transaction_history": _history, "get_watchlist": _if_logged_in,
    "notify_price_change": _notify, "place_order": _place, "remove_stock_from_watchlist": _unwatch,
    "trading_get_login_status": no_arguments, "trading_login": _login, "trading_logout": _if_logged_in,
    "withdraw_funds": _withdraw,
}  # fmt: skip
