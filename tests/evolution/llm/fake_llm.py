"""A fake LLM behind the fake endpoint: it reads our prompts and plays sensible replies for each stage.

It knows from the system prompt what it is asked for. ``replies`` puts other answers in place of a stage's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from tests.fake_endpoint import MODEL, Answer, says, says_json

STAGES = {
    "You study how": "reflect",
    "You explore": "explore",
    "You turn records": "abstract",
    "You carry out": "execute",
    "You judge": "judge",
}
PLAN = [
    "put(key='elk', text='green')",
    "show(key='ant')",
    "add(counter='cat', amount=12)",
    "erase(key='nobody')",
    "copy(source='elk', target='gnu')",
    "total()",
    "pwd()",
    "mkdir(dir_name='plans')",
    "touch(file_name='ideas.txt')",
    "cd(folder='missing')",
    "echo(content='first draft', file_name='ideas.txt')",
    "ls(a=True)",
]
Reply = Callable[[dict[str, Any]], Answer]


class FakeLlm:
    def __init__(self, replies: Mapping[str, Reply | str] | None = None, delay: float = 0.0) -> None:
        self.replies = dict(replies or {})
        self.delay = delay
        self.asked: list[str] = []  # stages, in order of arrival

    def __call__(self, request: dict[str, Any], number: int) -> Answer:
        assert request["model"] == MODEL
        system = request["messages"][0]["content"]
        stage = next(stage for beginning, stage in STAGES.items() if system.startswith(beginning))
        self.asked.append(stage)
        reply = self.replies.get(stage, getattr(self, f"_{stage}"))
        return says(reply, self.delay) if isinstance(reply, str) else reply(request)

    def _reflect(self, request: dict[str, Any]) -> Answer:
        tools = tools_of(request)
        first = re.search(r"\[1\] action: (.+)", user_of(request))
        return says_json(context(summary=f"The agent began with `{first[1] if first else tools[0]}`.", focus=tools[:1]))

    def _explore(self, request: dict[str, Any]) -> Answer:
        plan = [call for call in PLAN if call.split("(")[0] in tools_of(request)]
        run = int(re.search(r"exploration (\d+) of", user_of(request))[1])  # type: ignore[index]
        made = sum(message["role"] == "assistant" for message in request["messages"])
        order = plan if run % 2 else plan[1:] + plan[:1]
        if made >= len(order):
            return says("Nothing is left.\n```\nSTOP\n```", self.delay)
        return says(f"<think>hm</think>Let me see what {{context}} does.\n```python\n{order[made]}\n```", self.delay)

    def _abstract(self, request: dict[str, Any]) -> Answer:
        least = int(re.search(r"at least (\d+)", request["messages"][0]["content"])[1])  # type: ignore[index]
        tasks = []
        for run, text in enumerate(re.findall(r"Run \d+:\n(.*?)</data>", user_of(request), re.DOTALL), 1):
            steps = re.findall(r"\[(\d+)\] action: (.*)\n    (observation|error)", text)
            good = [(int(number), call) for number, call, kind in steps if kind == "observation"]
            part = good[: least + 1]
            if len(part) >= least:
                tasks.append(proposal(run, [n for n, _ in part], asks_for([call for _, call in part])))
        return says_json({"tasks": tasks}, self.delay)

    def _execute(self, request: dict[str, Any]) -> Answer:
        hinted = re.search(r'<data kind="solution">\n(.*?)\n</data>', user_of(request), re.DOTALL)[1]  # type: ignore[index]
        made = sum(message["role"] == "assistant" for message in request["messages"])
        calls = hinted.split("\n")
        return says(f"```\n{calls[made] if made < len(calls) else 'STOP'}\n```", self.delay)

    def _judge(self, request: dict[str, Any]) -> Answer:
        """Success if the transcript shows every call of the solution, and no error."""
        text = user_of(request)
        solution = re.search(r'<data kind="solution">\n(.*?)\n</data>', text, re.DOTALL)[1]  # type: ignore[index]
        transcript = re.search(r'<data kind="transcript">\n(.*?)\n</data>', text, re.DOTALL)[1]  # type: ignore[index]
        calls = re.sub(r"For message \d+: ", "", solution).split("\n")
        missing = [call for call in calls if f"action: {call}" not in transcript]
        failed = "\n    error:" in transcript
        return says_json({"reason": f"missing: {missing}, failed: {failed}", "success": not missing and not failed})


def user_of(request: dict[str, Any]) -> str:
    return str(request["messages"][1]["content"])


def tools_of(request: dict[str, Any]) -> list[str]:
    return re.findall(r"^- (\w+)\(", user_of(request) + request["messages"][0]["content"], re.MULTILINE)


def context(summary: str = "It went wrong.", focus: list[str] | None = None, **fields: Any) -> dict[str, Any]:
    """A reflection's JSON."""
    empty: dict[str, Any] = {"failure_cause": "", "instability_pattern": "It is unsteady.", "do_not_repeat": []}
    return {**empty, "summary": summary, "focus_pattern": focus or [], "exploration_objectives": ["vary it"], **fields}


def proposal(run: int, steps: list[int], message: str) -> dict[str, Any]:
    """A task of an abstraction's JSON, with one turn."""
    turns = [{"message": message, "steps": steps}]
    return {"description": "a task", "run": run, "turns": turns, "completion": "it is done"}


def asks_for(calls: list[str]) -> str:
    """Words for calls, with their values."""
    return "Please " + ", then ".join(" ".join(re.findall(r"[\w. ]+", re.sub(r"\w+=", "", call))) for call in calls)


def as_text(value: Any) -> str:
    return json.dumps(value)
