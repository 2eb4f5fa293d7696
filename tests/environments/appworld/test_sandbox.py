"""The walls around agents' code, with this Python: no AppWorld is needed for them."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from coevolve_lab.environments.appworld.package import INSIDE
from coevolve_lab.environments.appworld.server import no_walls

if sys.platform != "linux" or platform.machine() != "x86_64":
    pytest.skip("the walls are Linux's on x86-64; elsewhere agents' code is refused", allow_module_level=True)

HEAD = f"import sys, os; sys.path.insert(0, {str(INSIDE)!r}); import sandbox\n"
# A kernel without Landlock: a filter that says so, kept by what is executed next.
WITHOUT_LANDLOCK = """
import ctypes, struct
lines = [(0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x00050000 | 38), (0x06, 0, 0, 0x7FFF0000)]
body = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in lines))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, struct.pack("HxxxxxxP", len(lines), ctypes.addressof(body)), 0, 0) == 0
os.execv(sys.executable, [sys.executable, os.path.join(sys.path[0], "sandbox.py")])
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", HEAD + program], capture_output=True, text=True, timeout=60, check=False
    )


def test_this_machine_can_build_all_walls() -> None:
    done = subprocess.run(
        [sys.executable, INSIDE / "sandbox.py"], capture_output=True, text=True, timeout=60, check=True
    )
    assert json.loads(done.stdout) == {}


@pytest.mark.parametrize(
    ("attempt", "answer"),
    [
        ("print(len(str(2**100)), json.dumps(1))", "31 1"),  # it can still compute, and import what Python has
        ("import statistics; print(statistics.fmean([1, 2]))", "1.5"),
        ("open('/etc/passwd')", "PermissionError"),
        ("os.listdir('/')", "PermissionError"),
        ("open(os.devnull, 'w')", "Read-only file system"),
        ("open('x', 'w')", "Read-only file system"),
        ("os.mkdir('/tmp/x')", "PermissionError"),
        ("import socket; socket.socket()", "PermissionError"),
        ("os.kill(os.getppid(), 0)", "PermissionError"),
        ("import threading; threading.Thread(target=print).start()", "can't start new thread"),
        ("bytearray(1 << 40)", "MemoryError"),
        ("os.chdir('/')", "PermissionError"),
    ],
)
def test_what_locked_down_code_can_do(attempt: str, answer: str) -> None:
    program = f"import json\nsandbox.apply()\ntry:\n    {attempt}\nexcept BaseException as e:\n    print(repr(e), e)"
    assert answer in run(program).stdout


@pytest.mark.parametrize(
    "deadly", ["os.fork()", "os.execv('/bin/true', ['true'])", "sandbox._libc.syscall(101, 0, 0, 0)"]
)
def test_the_worst_calls_end_the_process(deadly: str) -> None:
    assert run(f"sandbox.apply()\n{deadly}\nprint('on')").returncode == -31  # SIGSYS


def test_packages_in_the_standard_librarys_folder_are_not_readable() -> None:
    program = """
import glob
packages = [os.path.join(os.path.dirname(os.__file__), name) for name in ("site-packages", "dist-packages")]
path = next(path for package in packages for path in glob.glob(package + "/**/*.py", recursive=True))
open(path).close()
print("readable")
sandbox.apply()
open(path)
"""
    done = run(program)
    assert done.stdout == "readable\n"
    assert "PermissionError" in done.stderr


def test_other_file_descriptors_are_closed(tmp_path: Path) -> None:
    program = f"""
kept, other = os.pipe()[0], os.open({str(tmp_path)!r}, os.O_RDONLY)
sandbox.keep_files([kept])
os.fstat(kept)
try:
    os.fstat(other)
except OSError:
    os._exit(7)
"""
    assert run(program).returncode == 7


def test_a_missing_wall_is_told_of_by_name() -> None:
    done = run(WITHOUT_LANDLOCK)
    missing = json.loads(done.stdout)
    assert list(missing) == ["landlock"]
    assert "allow_missing=['landlock']" in no_walls(missing)
    assert "the kernel has no Landlock" in no_walls(missing)
