"""The world process: one task's databases and APIs, and the only one to touch them. No code of an agent runs here.

It starts its code process (``shell.py``) before anything of the task is loaded, then answers two sides. The owner asks
on one socket: {"execute", "seconds"} -> {"output", "failed", "timed_out", "done", "calls"}, {"finish"} -> {"answer",
"completed", "tampering"}. The code process, while it executes, sends on another: {"call": [app, api, arguments]} and
gets {"result"} or {"error"}; {"tampering": words}, unanswered; and at the end {"done": output, "failed", "number"}, the
number being that of the request. What it sends is data: API names come from a list, arguments are JSON, and a message
that is anything else ends the code process.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import quote

import frames
import sandbox
import shell

CALL_BYTES = 4 << 20  # of one message from the code process
GRACE = 2.0  # seconds between the alarm in the code process and its end
OPEN_SECONDS = 60.0
MOST_TAMPERING = 50
MEMORY_BYTES = 1 << 30
FILE_BYTES = 256 << 20
GROWTH_KIB = 400 << 10  # of the world process, by what the code's calls store; beyond, too little is left to save it
_NOT_ARGUMENTS = ("client", "show", "track", "_app_name", "_api_name")  # of the package's client, not of an API


def main(owner: socket.socket, job: Mapping[str, Any], parent: int) -> None:
    """Serve one episode until the owner's socket closes. job: task, root, dbs (a folder to save to), walls, ..."""
    sandbox.die_with_parent(parent)
    inner, outer = socket.socketpair()
    child = os.fork()
    if child == 0:
        owner.close()
        inner.close()
        try:
            shell.main(outer, os.getppid(), job["walls"], job["output_chars"])
        finally:
            os._exit(0)
    outer.close()
    sandbox.limit(MEMORY_BYTES, 256, FILE_BYTES)
    try:
        world = World(job, CodeProcess(child, inner))
    except Exception:
        frames.send(owner, {"failure": traceback.format_exc(limit=-3)[-2000:]}, None)
        return
    frames.send(owner, {"opened": True}, None)
    while True:
        request = frames.receive(owner, None)
        try:
            answer = world.execute(request["execute"], request["seconds"]) if "execute" in request else world.finish()
        except Exception as error:  # what an agent stored may break what reads it; it must not break the episode
            traceback.print_exc()
            answer = world.give_up(f"the world cannot be read any more: {error!r}"[:300])
        frames.send(owner, answer, None)


@cache
def public_apis() -> dict[str, dict[str, dict[str, str]]]:
    """{"method", "path"} of the APIs that agents may call, by app and name; without those of the package's own use."""
    from appworld.apps import get_all_apps
    from appworld.common.utils import get_name_to_apis
    from appworld.requester import _get_api_name_to_doc

    found = {}
    for app in sorted(get_all_apps(skip_admin=True)):
        docs = _get_api_name_to_doc(app, include_private_apis=False)
        names = [name for name in get_name_to_apis(app, ignore_private_apis=True) if name in docs]
        found[app] = {name: {"method": docs[name]["method"].lower(), "path": docs[name]["path"]} for name in names}
    return found


def _goes_as_text(doc: Mapping[str, str]) -> bool:
    """Whether the package's client sends the arguments in an URL or a form, where any object becomes text."""
    return doc["method"] in ("get", "delete") or "auth/token" in doc["path"]


@dataclass
class CodeProcess:
    """The other end of the socket, and the process behind it, which sleeps while it has nothing to execute."""

    pid: int
    channel: socket.socket
    alive: bool = True
    tampering: list[str] = field(default_factory=list)

    def blame(self, words: str) -> None:
        if len(self.tampering) < MOST_TAMPERING:
            self.tampering.append(words)

    def kill(self) -> str:
        """End it, if it has not ended by itself; how it ended."""
        if not self.alive:
            return "ended before"
        self.alive = False
        os.kill(self.pid, signal.SIGKILL)  # a pid that was not waited for is still its own
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        if code == -signal.SIGSYS:
            return "killed by the kernel for a system call that only an attack makes"
        return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"

    def wake(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def sleep(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)


class World:
    """The package's world of a task, with the calls that its code process makes."""

    def __init__(self, job: Mapping[str, Any], code: CodeProcess) -> None:
        from appworld import AppWorld, update_root

        self._code, self._dbs, self._number = code, str(job["dbs"]), 0
        update_root(job["root"])
        os.chdir(job["root"])
        self._world = AppWorld(task_id=job["task"], load_ground_truth=False, timeout_seconds=None)
        self._docs = public_apis()
        self._kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        begin = {
            "apis": {app: {name: _goes_as_text(doc) for name, doc in apis.items()} for app, apis in self._docs.items()},
            "datetime": self._world.task.datetime.isoformat(),
            "max_interactions": job["max_interactions"],
        }
        deadline = frames.now() + OPEN_SECONDS
        frames.send(code.channel, {"begin": begin}, deadline)
        answer = frames.receive(code.channel, deadline)
        if "ready" not in answer:
            raise RuntimeError(f"the code process did not start: {answer}")
        code.sleep()

    def execute(self, text: str, seconds: float) -> dict[str, Any]:
        """Have the code process run a block; it is killed when it is not done GRACE seconds after its time."""
        if not self._code.alive:
            return self._answer("Execution failed. The code process has ended.", True, False, ())
        deadline = frames.now() + seconds + GRACE
        calls: list[str] = []
        self._number += 1
        self._world.requester.reset_request_count()
        self._code.wake()
        try:
            request = {"execute": text, "seconds": seconds, "number": self._number}
            frames.send(self._code.channel, request, deadline)
            while True:
                message = frames.receive(self._code.channel, deadline, CALL_BYTES)
                if "call" in message:
                    frames.send(self._code.channel, self._call(message["call"], calls), deadline)
                elif "tampering" in message:
                    self._code.blame(str(message["tampering"])[:300])
                elif message["number"] == self._number:
                    output, failed = str(message["done"]), bool(message["failed"])
                    break
                else:
                    raise ValueError("an answer to another request")
        except frames.Late:
            self._code.kill()
            self._code.blame("its code did not stop at its deadline and was killed")
            return self._answer(f"Execution failed. Killed after {seconds:.0f} seconds.", True, True, calls)
        except (frames.BrokenChannel, LookupError, TypeError, ValueError) as problem:
            ended = self._code.kill()
            self._code.blame(f"the code process ended, or sent what no call of an API sends: {problem} ({ended})")
            return self._answer("Execution failed. The code process ended.", True, False, calls)
        self._code.sleep()
        return self._answer(output, failed, False, calls)

    def finish(self) -> dict[str, Any]:
        """End the code process, save the databases, and say how the task stands."""
        if self._code.alive and (ended := self._code.kill()) != "signal SIGKILL":
            self._code.blame(f"the code process ended while it had nothing to do: {ended}")
        self._hear_the_rest()
        self._world._save_state(self._dbs)
        status, answer = self._status()
        return {"answer": answer, "completed": status is not None, "tampering": self._code.tampering}

    def give_up(self, reason: str) -> dict[str, Any]:
        """End the code process for this reason; the answer to any request."""
        self._code.kill()
        self._code.blame(reason)
        said = {"output": "Execution failed. The world broke.", "failed": True, "timed_out": False, "done": True}
        return {**said, "calls": [], "answer": None, "completed": False, "tampering": self._code.tampering}

    def _hear_the_rest(self) -> None:
        """Reports that came after the code process said it was done; it is dead, so they are few."""
        try:
            while True:
                message = frames.receive(self._code.channel, frames.now() + 1.0, CALL_BYTES)
                self._code.blame(str(message.get("tampering", "said something after it said it was done"))[:300])
        except (frames.Late, frames.BrokenChannel, AttributeError):
            return

    def _answer(self, output: str, failed: bool, timed_out: bool, calls: Any) -> dict[str, Any]:
        done = not self._code.alive or self._status()[0] is not None
        return {"output": output, "failed": failed, "timed_out": timed_out, "done": done, "calls": list(calls)}

    def _status(self) -> tuple[str | None, str | None]:
        """Status and answer of the task; the status is None until the task was completed."""
        active = self._world.requester.request("supervisor", "show_active_task", track=False)
        if active["status"] not in ("success", "fail"):
            return None, None
        return active["status"], None if active["answer"] in (None, "<<NOT_GIVEN>>") else str(active["answer"])

    def _call(self, call: Any, calls: list[str]) -> dict[str, Any]:
        if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - self._kib > GROWTH_KIB:
            raise ValueError("its calls fill the memory of the world")  # ends the code process, as tampering
        app, name, arguments = call
        if app not in self._docs or name not in self._docs[app] or not isinstance(arguments, dict):
            self._code.blame(f"asked for {str(app)[:50]}.{str(name)[:50]}, which is no API for agents")
            return {"error": ["Exception", f"No API named '{name}' found in the {app} app."]}
        try:
            json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
        except (ValueError, RecursionError) as error:  # halves of surrogate pairs and NaN cannot be stored
            return {"error": [type(error).__name__, f"an argument cannot be sent: {error}"]}
        if len(calls) < 2 * self._world.max_api_calls_per_interaction:
            calls.append(f"{app}.{name}")
        for key in _NOT_ARGUMENTS:
            if key in arguments:
                return {"error": ["TypeError", f"'{key}' is an invalid keyword argument for an API"]}
        # A path is put together from text: "../../dbs" as an id would lead to what is not for agents.
        for key in arguments:
            if "{" + key + "}" in self._docs[app][name]["path"]:
                arguments[key] = quote(str(arguments[key]), safe="").replace(".", "%2E")
        try:
            return {"result": self._world.apis[app][name](**arguments)}
        except Exception as error:
            return {"error": [type(error).__name__, str(error)]}
