"""JSON messages over a stream socket, bounded in size and time; spoken between all processes of a worker.

Standard library only: it is imported on both sides of the border between this library and AppWorld's environment. The
clock is read with ``clock_gettime``, which freezegun leaves alone in processes that hold a world.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from typing import Any

_HEADER = struct.Struct("!I")
MAX_BYTES = 16 << 20  # of any message; senders of untrusted text are held to less


class BrokenChannel(Exception):
    """The other side is gone, or says something that is no message."""


class Late(Exception):
    """The deadline passed."""


def now() -> float:
    """Seconds of the monotonic clock."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def send(channel: socket.socket, message: Any, deadline: float | None) -> None:
    """Send one message; without a deadline on a socket that blocks, as ``receive``.

    Raises Late, BrokenChannel, or what ``json.dumps`` raises, before anything was sent.
    """
    body = json.dumps(message).encode()
    data = memoryview(_HEADER.pack(len(body)) + body)
    while data:
        _set_timeout(channel, deadline)
        try:
            data = data[channel.send(data) :]
        except TimeoutError:
            raise Late from None
        except OSError as error:
            raise BrokenChannel(f"cannot send: {error}") from None


def receive(channel: socket.socket, deadline: float | None, limit: int = MAX_BYTES) -> Any:
    """Receive one message of at most ``limit`` bytes. Raises Late or BrokenChannel."""
    (size,) = _HEADER.unpack(_exactly(channel, _HEADER.size, deadline))
    if size > limit:
        raise BrokenChannel(f"a message of {size} bytes; {limit} are allowed")
    body = _exactly(channel, size, deadline)
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BrokenChannel(f"a message that is not JSON ({type(error).__name__})") from None


def _exactly(channel: socket.socket, size: int, deadline: float | None) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        _set_timeout(channel, deadline)
        try:
            part = channel.recv(min(size - len(parts), 1 << 20))
        except TimeoutError:
            raise Late from None
        except OSError as error:
            raise BrokenChannel(f"cannot receive: {error}") from None
        if not part:
            raise BrokenChannel("the other side is gone")
        parts += part
    return bytes(parts)


def _set_timeout(channel: socket.socket, deadline: float | None) -> None:
    if deadline is not None:
        left = deadline - now()
        if left <= 0:
            raise Late
        channel.settimeout(left)
