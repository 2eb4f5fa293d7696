"""The code process: runs what an agent wrote, with the package's own shell and guard, and holds nothing worth stealing.

It was forked from a process that never loaded a task, is locked down (``sandbox.py``) and has one socket, to the world
process, which answers API calls. ``apis`` looks like the package's; every call of it goes through that socket as JSON.
Whatever the code does to this process, it can only ask for what it could have called.
"""

from __future__ import annotations

import builtins
import json
import math
import random
import signal
import socket
import traceback
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import frames
import sandbox
import tripwire


def main(channel: socket.socket, parent: int, walls: Sequence[str], output_chars: int) -> None:
    """Serve until the socket closes. ``world.py`` tells what is said on it."""
    sandbox.die_with_parent(parent)
    sandbox.keep_files([channel.fileno()])
    channel.settimeout(None)  # and it stays: changing it is a system call that is not allowed later
    begin = frames.receive(channel, None)["begin"]
    report = tripwire.reporter(channel)
    try:
        shell = _make_shell(begin, channel)
        sandbox.apply(walls=walls)
    except Exception:  # of ours or the package's: nothing of an agent has run yet
        frames.send(channel, {"failure": traceback.format_exc(limit=-3)[-2000:]}, None)
        return
    tripwire.hang(tripwire.reporter(channel), sandbox.readable_paths())
    frames.send(channel, {"ready": True}, None)
    while True:
        request = frames.receive(channel, None)
        if hostile := tripwire.hostile_imports(request["execute"]):
            report(f"imports {', '.join(hostile)}")
        output, failed = _run(shell, request["execute"], request["seconds"])
        extra = len(output) - output_chars
        if extra > 0:
            output = f"{output[:output_chars]}... [{extra} more characters]"
        frames.send(channel, {"done": output, "failed": failed, "number": request["number"]}, None)


def _run(shell: Any, code: str, seconds: float) -> tuple[str, bool]:
    shell.timeout_seconds = max(1, math.ceil(seconds))
    shell.succeeded = False
    try:
        return str(shell.execute(code)), not shell.succeeded
    except BaseException as error:  # the package lets through what is no Exception
        shell.safety_guard.disable()
        return f"Execution failed. Traceback:\n{_in_words(error)}", True
    finally:
        signal.alarm(0)
        shell.environment_io.clear()


def _in_words(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except BaseException:  # the agent's code may have written the class
        return type(error).__name__


def _make_shell(begin: Mapping[str, Any], channel: socket.socket) -> Any:
    """The package's AppWorld object without what belongs to the world: the shell, the guard, the texts of answers."""
    import appworld.environment as package

    apis, requester = _apis(begin["apis"], channel), SimpleNamespace(reset_request_count=lambda: None)
    package.ApiCollection.load = lambda *args, **kwargs: (apis, requester)

    class Shell(package.AppWorld):
        def __init__(self) -> None:
            self.__dict__.update({name: None for name in package.AppWorldInitDefaults.__fields__})
            self.task = SimpleNamespace(datetime=datetime.fromisoformat(begin["datetime"]), allowed_apps=[])
            self.models_to_db_home_path = self.models_from_db_home_path = self.output_db_home_path_on_disk = ""
            self.raise_on_unsafe_syntax = self.null_patch_unsafe_execution = True
            self.max_interactions = begin["max_interactions"]
            self.num_interactions = 0
            self.environment_io: list[dict[str, str]] = []
            self.succeeded = False
            config = package.Config()
            config.HistoryManager.enabled = False
            hook = package.sys.excepthook
            self.shell = package.InteractiveShellEmbed(config=config)
            package.sys.excepthook = hook  # IPython replaces it for the whole process
            self.shell.ast_node_interactivity = "none"
            self._execute_preamble()
            del self.shell.user_ns["requester"]  # it would reach what is not for agents
            self._set_datetime()
            self.safety_guard = package.SafetyGuard()

        def _shell_run_cell(self, code: str) -> Any:
            result = super()._shell_run_cell(code)
            self.succeeded = bool(result is not None and result.success)
            return result

        def _save_state(self, directory: str) -> None:
            """The world process saves."""

        def save_logs(self) -> None:
            """Whoever asked keeps the answers."""

    random.seed(100)  # as the package does
    return Shell()


def _apis(names: Mapping[str, Mapping[str, bool]], channel: socket.socket) -> Any:
    """The package's collection of APIs, each a call through the socket. names: by app and API, whether any object goes
    for an argument, as text; elsewhere only JSON does.
    """
    from appworld.collections.apis import ApiCollection
    from appworld.common.utils import CustomErrorMessageMunch

    apis = ApiCollection(error_message="No app named '{key}' found.")
    for app, calls in names.items():
        apis[app] = CustomErrorMessageMunch.build("No API named '{key}' found in the " + app + " app.")
        for name, as_text in calls.items():
            apis[app][name] = _api(app, name, str if as_text else None, channel)
    return apis


def _api(app: str, name: str, default: Callable[[Any], str] | None, channel: socket.socket) -> Callable[..., Any]:
    def _api_request(**kwargs: Any) -> Any:
        arguments = json.loads(json.dumps(kwargs, default=default))
        # An alarm between two halves of a message would leave the socket in the middle of one.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
        try:
            frames.send(channel, {"call": [app, name, arguments]}, None)
            answer = frames.receive(channel, None)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
        if "error" in answer:
            kind, message = answer["error"]
            error = getattr(builtins, kind, Exception)
            plain = isinstance(error, type) and issubclass(error, Exception) and not issubclass(error, UnicodeError)
            raise (error if plain else Exception)(message)  # a UnicodeError is not made of a message
        return answer["result"]

    _api_request.__qualname__ = "_wrap_api_request.<locals>._api_request"  # it is in messages that agents read
    return _api_request
