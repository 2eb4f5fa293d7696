"""How close an evolution's calls come to what an endpoint allows, against a fake one with a fixed latency.

    python -m benchmarks.endpoint_throughput [--latency 1] [--connections 32] [--contexts 64] [--rollouts 2] [--steps 6]

Every context is explored in so many rollouts at once, each of so many steps that wait for one another. Ideal: calls x
latency / connections. Prints seconds and the fraction of the ideal, with calls as long as real ones (20 tools, a
conversation that grows) and everything recorded; then the same from the recording.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from coevolve_lab.config import EndpointConfig
from coevolve_lab.endpoint import Cassette, Endpoint, Limits, run_async
from tests.fake_endpoint import Answer, FakeEndpoint, calls

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": f"tool_{i}",
            "description": "Does one of the things that an environment's tools do, told in a sentence or two. " * 2,
            "parameters": {"type": "object", "properties": {n: {"type": "string"} for n in ("path", "name", "text")}},
        },
    }
    for i in range(20)
]
OBSERVATION = "a line of what the environment answers\n" * 20


def serve(latency: float, pipe: Connection) -> None:
    """The fake endpoint, in a process of its own as a real one is."""
    action = calls(("tool_1", '{"path": "notes.txt", "name": "a"}'), text="I look at the notes first.")
    with FakeEndpoint(lambda request, number: Answer(action.body, delay=latency)) as fake:
        pipe.send(fake.url)
        pipe.recv()
        pipe.send((len(fake.requests), fake.most_at_once))


async def rollout(endpoint: Endpoint, subject: str, steps: int) -> int:
    """Steps that depend on each other; how many got an answer."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"Explore. {OBSERVATION}"}]
    answered = 0
    for _ in range(steps):
        reply = await endpoint.ask("explore", subject, messages, tools=TOOLS)
        answered += reply.status == "ok"
        messages.append({"role": "assistant", "content": f"{reply.text} {reply.tool_calls[0].arguments}"})
        messages.append({"role": "user", "content": OBSERVATION})
    return answered


async def evolution(endpoint: Endpoint, given: argparse.Namespace) -> int:
    subjects = [f"context-{i}/{j}" for i in range(given.contexts) for j in range(given.rollouts)]
    return sum(await asyncio.gather(*(rollout(endpoint, subject, given.steps) for subject in subjects)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency", type=float, default=1.0, help="seconds before every reply")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--contexts", type=int, default=64)
    parser.add_argument("--rollouts", type=int, default=2)
    parser.add_argument("--steps", type=int, default=6)
    given = parser.parse_args()
    asked = given.contexts * given.rollouts * given.steps
    ideal = asked * given.latency / given.connections
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(given.latency, theirs), daemon=True)
    server.start()
    with tempfile.TemporaryDirectory() as folder:
        cassette = Path(folder, "cassette.jsonl")
        roles = {"explore": EndpointConfig(model="fake-1", base_url=ours.recv())}
        for label in ("asked", "from the recording"):
            endpoint = Endpoint(roles, Limits(connections=given.connections), Cassette(cassette))
            start, cpu = time.perf_counter(), time.process_time()
            answered = run_async(evolution(endpoint, given))
            seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
            print(f"{seconds:8.2f} s  {cpu:6.2f} CPU-s  {answered} of {asked} calls answered, {label}")
            if label == "asked":
                print(f"{ideal:8.2f} s  ideal: {ideal / seconds:.0%} of it reached")
        print(f"           recording: {cassette.stat().st_size / 1e6:.1f} MB")
    ours.send("stop")
    requests, most = ours.recv()
    print(f"           {requests} requests, at most {most} at once")
    server.join(10)


if __name__ == "__main__":
    main()
