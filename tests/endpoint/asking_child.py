"""A process that asks and may be killed meanwhile. Arguments: base URL, recording, number of questions."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from coevolve_lab.config import EndpointConfig
from coevolve_lab.endpoint import Cassette, Endpoint, Limits, run_async


async def ask_all(endpoint: Endpoint, count: int) -> None:
    names = [f"s{i}" for i in range(count)]
    await asyncio.gather(*(endpoint.ask("explore", n, [{"role": "user", "content": n}]) for n in names))


def main(url: str, cassette: str, count: str) -> None:
    roles = {"explore": EndpointConfig(model="fake-1", base_url=url)}
    run_async(ask_all(Endpoint(roles, Limits(connections=4), Cassette(Path(cassette))), int(count)))


if __name__ == "__main__":
    main(*sys.argv[1:])
