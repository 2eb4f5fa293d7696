"""What no honest program of an agent does is reported, before it is tried.

The walls are the kernel's (``sandbox.py``) and hold whatever happens here. This is the bell on them: an audit hook,
which cannot be taken off again, reports every event that means reaching for something beyond the APIs. What the
package's own guard answers with an error or does nothing about (``import requests``, ``os.system``) is left to it,
except for imports that are of no use but for an attack. Standard library only.
"""

from __future__ import annotations

import ast
import os
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

HOSTILE_MODULES = frozenset({
    "_ctypes", "_posixsubprocess", "_socket", "_sqlite3", "cffi", "ctypes", "faulthandler", "freezegun", "gc",
    "mmap", "multiprocessing", "posix", "pty", "resource", "signal", "socket", "sqlite3", "subprocess",
})  # fmt: skip
_EVENTS = frozenset({
    "code.__new__", "gc.get_objects", "gc.get_referents", "gc.get_referrers", "mmap.__new__", "os.chflags",
    "os.chmod", "os.chown", "os.exec", "os.fork", "os.forkpty", "os.kill", "os.killpg", "os.link", "os.lockf",
    "os.mkdir", "os.posix_spawn", "os.remove", "os.removexattr", "os.rename", "os.rmdir", "os.setxattr",
    "os.spawn", "os.symlink", "os.system", "os.truncate", "os.utime", "pty.spawn", "resource.prlimit",
    "resource.setrlimit", "signal.pthread_kill", "sys.addaudithook",
})  # fmt: skip
_PREFIXES = ("ctypes.", "fcntl.", "shutil.", "socket.", "sqlite3.", "subprocess.", "tempfile.", "urllib.")
_LOOKING = frozenset({"open", "os.listdir", "os.scandir", "os.chdir"})
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
MOST_REPORTS = 20


def reporter(channel: socket.socket) -> Callable[[str], None]:
    """A function that sends a few words as a message {"tampering"}; it uses nothing that Python code can replace."""
    send, plain = channel.sendall, frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ._-/,()'")

    def report(words: str) -> None:
        body = b'{"tampering": "%s"}' % "".join([c if c in plain else "?" for c in words[:300]]).encode()
        with suppress(OSError):  # then nobody is left to tell
            send(b"\0\0" + bytes((len(body) >> 8, len(body) & 255)) + body)

    return report


def hang(report: Callable[[str], None], readable: Sequence[str]) -> None:
    """Have ``report`` called with a few words at each of the first such events. readable: folders that may be read."""
    roots = tuple(path.rstrip("/") for path in readable)
    here = os.getcwd()
    events, prefixes, looking, writing = _EVENTS, _PREFIXES, _LOOKING, _WRITING
    left = [MOST_REPORTS]
    # The agent's code can replace any global name, so everything that is used is held by the closure.
    text, is_a, join, normal, decode, number = str, isinstance, os.path.join, os.path.normpath, os.fsdecode, int

    def beyond(path: Any) -> bool:
        if not is_a(path, text):
            return False
        path = normal(join(here, path))
        return not any(path == root or path.startswith(root + "/") for root in roots)

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event in looking:
            path: Any = args[0] if args else None
            path = decode(path) if is_a(path, bytes) else path
            if event == "open" and is_a(args[2], number) and args[2] & writing:
                words = f"opens {text(path)} for writing"
            elif beyond(path):
                words = f"reads {path}"
            else:
                return
        elif event in events or event.startswith(prefixes):
            words = f"{event} {text(args)}"
        else:
            return
        if left[0] > 0:
            left[0] -= 1
            report(words)

    sys.addaudithook(hook)


def hostile_imports(code: str) -> list[str]:
    """Modules out of ``HOSTILE_MODULES`` that the code imports by a statement: the guard refuses it unheard."""
    try:
        nodes = list(ast.walk(ast.parse(code)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    return sorted(name for name in names if name.split(".")[0] in HOSTILE_MODULES)
