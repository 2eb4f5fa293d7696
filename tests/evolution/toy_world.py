"""Named values and counters: the smallest environment that can be explored, for tests of the stages and of the loop.

A call is Python syntax, ``copy(source='ant', target='bee')``; text without a call ends the user turn. Starts offer the
values' tools, the counters' tools, or both. Wrong arguments answer an error and change nothing.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Mapping, Sequence
from typing import Any

from coevolve_lab.records import Task

POOLS = {
    "train": ["ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen"],
    "held_out": ["oak", "elm", "fir", "yew", "ash", "box", "bay", "fig"],
}
TOOLS = {
    "values": {"put": ("key", "text"), "copy": ("source", "target"), "erase": ("key",), "show": ("key",)},
    "counters": {"add": ("counter", "amount"), "reset": ("counter",), "total": ()},
}
PHRASES = {
    **{"put": "store {text} under {key}", "copy": "copy {source} to {target}", "erase": "erase {key}"},
    **{"show": "show {key}", "add": "add {amount} to {counter}", "reset": "reset {counter}", "total": "sum it all up"},
}


def read_call(text: str) -> tuple[str, dict[str, Any]] | None:
    """Name and literal arguments of a call, None when the text is no call."""
    try:
        node: Any = ast.parse(text.strip(), mode="eval").body
        return node.func.id, {str(k.arg): ast.literal_eval(k.value) for k in node.keywords}
    except (SyntaxError, ValueError, AttributeError):
        return None


class ToySession:
    def __init__(self, task: Task) -> None:
        self.task, self.turn, self.observation = task, 0, (*task.turns, "")[0]
        self.last_tools: tuple[str, ...] = ()
        self.last_failed = False
        self.signatures = {name: args for kind in task.start["classes"] for name, args in TOOLS[kind].items()}
        self.tools: list[dict[str, Any]] = [
            {"type": "function", "function": {"name": name, "parameters": {"properties": {a: {} for a in args}}}}
            for name, args in self.signatures.items()
        ]
        self.values: dict[str, str] = dict(task.start["values"])
        self.counters: dict[str, int] = dict(task.start["counters"])
        self.reads: set[str] = set()

    def step(self, action: str) -> tuple[str, bool]:
        call = read_call(action)
        self.last_tools, self.last_failed = ((call[0],) if call else ()), False
        if call is None:
            self.turn += 1
            done = self.turn >= len(self.task.turns)
            return ("" if done else self.task.turns[self.turn]), done
        observation = self._run(*call)
        self.last_failed = observation.startswith("error")
        return observation, False

    def _run(self, name: str, given: dict[str, Any]) -> str:
        match name, given:
            case _ if set(given) != set(self.signatures.get(name, ("no such tool",))):
                return f"error: no call {name} with {sorted(given)}"
            case "put", {"key": str(key), "text": str(text)}:
                self.values[key] = text
            case "copy", {"source": source, "target": str(target)} if source in self.values:
                self.values[target] = self.values[source]
            case "erase", {"key": key} if key in self.values:
                del self.values[key]
            case "show", {"key": key} if key in self.values:
                self.reads.add(f"{key} is {self.values[key]}")
                return f"{key} is {self.values[key]}"
            case "add", {"counter": counter, "amount": int(amount)} if counter in self.counters:
                self.counters[counter] += amount
            case "reset", {"counter": counter} if counter in self.counters:
                self.counters[counter] = 0
            case "total", _:
                self.reads.add(f"total is {sum(self.counters.values())}")
                return f"total is {sum(self.counters.values())}"
            case _:
                return f"error: {name} does not fit {given}"
        return "ok"

    def score(self) -> float:
        """1 for the solution's end state and everything that it read; 0.5 for the state alone, if that changed."""
        before, gold = ToySession(self.task), ToySession(self.task)
        for call in (call for turn in self.task.solution for call in turn):
            gold.step(call)
        if not self.task.solution or (gold.values, gold.counters) != (self.values, self.counters):
            return 0.0
        changed = (gold.values, gold.counters) != (before.values, before.counters)
        return 1.0 if gold.reads <= self.reads else 0.5 * changed

    def close(self) -> None:
        pass


class ToyWorld:
    """Environment and ScriptedWorld in one. Splits: explore (train starts), test (``size`` held-out one-call tasks)."""

    name = "toy"

    def __init__(self, size: int = 20) -> None:
        self.size = size

    def splits(self) -> list[str]:
        return ["explore", "test"]

    def tasks(self, split: str) -> list[Task]:
        rng = random.Random(split)
        starts = [self.start("train" if split == "explore" else "held_out", rng) for _ in range(self.size)]
        if split == "explore":
            return [Task(f"toy-explore_{i}", "toy", (), start, split=split) for i, start in enumerate(starts)]
        return [self._test_task(f"toy-test_{i}", start, rng) for i, start in enumerate(starts)]

    def _test_task(self, name: str, start: Mapping[str, Any], rng: random.Random) -> Task:
        tools = [tool for tool in self.tool_names(start) if tool != "total"]  # a query without values would be a leak
        call = self.bind(self.open(Task(name, "toy", ("",), start)), rng.choice(tools), rng)
        return Task(name, "toy", (self.phrase(call, rng),), start, ((call,),), split="test")

    def open(self, task: Task) -> ToySession:
        return ToySession(task)

    def start(self, pool: str, rng: random.Random) -> Mapping[str, Any]:
        names, classes = rng.sample(POOLS[pool], 6), rng.choice([["values"], ["counters"], ["values", "counters"]])
        values = {name: f"{rng.choice(['red', 'blue', 'green'])} {rng.randrange(100)}" for name in names[:3]}
        counters = {name: rng.randrange(1, 99) for name in names[3:]}
        return {"pool": pool, "classes": classes, "values": values, "counters": counters}

    def tool_names(self, start: Mapping[str, Any]) -> Sequence[str]:
        return [name for kind in start["classes"] for name in TOOLS[kind]]

    def bind(self, session: ToySession, tool: str, rng: random.Random) -> str:
        taken = sorted(session.values)
        free = [name for name in POOLS[session.task.start["pool"]] if name not in taken]
        offers: dict[str, list[Any]] = {"key": taken or free, "source": taken or free, "target": free or taken}
        offers |= {"text": ["red", "blue", "green"], "counter": sorted(session.counters), "amount": list(range(1, 20))}
        given = {name: rng.choice(offers[name]) for name in session.signatures[tool]}
        return f"{tool}({', '.join(f'{name}={value!r}' for name, value in given.items())})"

    def phrase(self, call: str, rng: random.Random) -> str:
        name, given = read_call(call) or ("", {})
        return rng.choice(["", "please "]) + PHRASES[name].format(**given)
