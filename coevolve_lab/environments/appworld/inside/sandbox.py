"""Lock the calling process down for good, before it runs what an agent wrote. Linux on x86-64; needs no privileges.

Four walls, all of the kernel, none of which can be taken down again from inside:

- seccomp: a list of the system calls that computing needs. Not on it: starting a process or thread, replacing the
  program, signals to others, sockets, opening a file for writing, changing the file tree, tracing, mounting. The worst
  of them, which nothing but an attack makes, end the process by SIGSYS, so that they are known of whatever it says.
- Landlock: of the file tree, only the folders of the interpreter and the time zones can be opened, for reading.
- limits: memory, open files, no file growth, no core.
- file descriptors: all closed but the ones that are named.

User namespaces are not needed, so it works in containers that refuse ``unshare``. ``apply`` raises Missing when a wall
cannot be built. Standard library only. ``python sandbox.py`` prints as JSON which walls this machine is lacking.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import resource
import signal
import struct
import sys
from collections.abc import Sequence

MEMORY_BYTES = 512 << 20  # beyond what the process has when it is locked down
OPEN_FILES = 64

_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 22, 4, 38
_SECCOMP_MODE_FILTER = 2
_AUDIT_ARCH_X86_64 = 0xC000003E

# System call numbers of x86-64 (arch/x86/entry/syscalls/syscall_64.tbl).
_ALLOWED = {
    "read": 0, "write": 1, "close": 3, "stat": 4, "fstat": 5, "lstat": 6, "poll": 7, "lseek": 8, "mmap": 9,
    "mprotect": 10, "munmap": 11, "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15,
    "pread64": 17, "readv": 19, "writev": 20, "access": 21, "select": 23, "sched_yield": 24, "mremap": 25,
    "madvise": 28, "nanosleep": 35, "getitimer": 36, "alarm": 37, "setitimer": 38, "getpid": 39, "sendto": 44,
    "recvfrom": 45, "exit": 60, "uname": 63, "getcwd": 79, "readlink": 89, "gettimeofday": 96, "getrlimit": 97,
    "getrusage": 98, "sysinfo": 99, "times": 100, "getuid": 102, "getgid": 104, "geteuid": 107, "getegid": 108,
    "getppid": 110, "sigaltstack": 131, "gettid": 186, "time": 201, "futex": 202, "sched_getaffinity": 204,
    "getdents64": 217, "restart_syscall": 219, "clock_gettime": 228, "clock_getres": 229, "clock_nanosleep": 230,
    "exit_group": 231, "newfstatat": 262, "readlinkat": 267, "faccessat": 269, "pselect6": 270, "ppoll": 271,
    "set_robust_list": 273, "getrandom": 318, "membarrier": 324, "statx": 332, "rseq": 334, "faccessat2": 439,
}  # fmt: skip
# Starting a process (threads are merely refused), running a program, reaching into other processes, into the kernel.
_DEADLY = {
    "fork": 57, "vfork": 58, "execve": 59, "ptrace": 101, "pivot_root": 155, "chroot": 161, "mount": 165,
    "umount2": 166, "init_module": 175, "unshare": 272, "setns": 308, "perf_event_open": 298, "name_to_handle_at": 303,
    "open_by_handle_at": 304, "process_vm_readv": 310, "process_vm_writev": 311, "finit_module": 313, "seccomp": 317,
    "bpf": 321, "execveat": 322, "userfaultfd": 323, "io_uring_setup": 425, "io_uring_enter": 426, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "pidfd_open": 434, "openat2": 437, "pidfd_getfd": 438,
}  # fmt: skip
_OPEN, _FCNTL, _OPENAT, _PRLIMIT64, _IOCTL, _CLONE = 2, 72, 257, 302, 16, 56
_CLONE_THREAD = 0x10000
_FCNTL_COMMANDS = (0, 1, 2, 3, 1030)  # duplicate, read and set flags; not F_SETOWN and F_SETSIG, which send signals
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | (os.O_TMPFILE & ~os.O_DIRECTORY)

_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_FS_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}  # Landlock version: how many rights over files it knows
_TIME_ZONES = ("/usr/share/zoneinfo", "/etc/localtime")
_OTHERS_PACKAGES = ("site-packages", "dist-packages")  # in the standard library's folder; ours may be among them
_SCRIPTS = ("forkserver", "frames", "sandbox", "shell", "tripwire", "world")  # tracebacks quote them

WALLS = {
    "seccomp": "keeps the agent's code from starting processes, using the network and writing files",
    "landlock": "keeps the agent's code from reading files, among them the tasks' answers",
}

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class Missing(Exception):
    """A wall cannot be built here; the message starts with its name in ``WALLS``."""


def readable_paths() -> list[str]:
    """What locked-down code may read: AppWorld's environment, the standard library, time zones, its own scripts.

    Not the folder of these scripts: the mini world's generator is in it, with all solutions.
    """
    here = os.path.dirname(os.path.abspath(__file__))
    scripts = [os.path.join(here, f"{name}.py") for name in _SCRIPTS]
    paths = [sys.prefix, os.path.dirname(os.__file__), *_TIME_ZONES, *scripts]
    both = {form for path in paths for form in (path, os.path.realpath(path))}
    return sorted(path for path in both if os.path.exists(path))


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when ``parent``, which forked it, ends; ends it now if that has happened."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def keep_files(keep: Sequence[int]) -> None:
    """Close every file descriptor but 0, 1, 2 and those of ``keep``; 0, 1 and 2 become /dev/null."""
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    low = 3
    for number in [*sorted(keep), os.sysconf("SC_OPEN_MAX")]:
        os.closerange(low, number)
        low = number + 1


def limit(memory: int, files: int, file_bytes: int) -> None:
    """Bound what this process can use; ``memory`` (bytes) is counted from what it has now."""
    with open("/proc/self/statm") as statm:
        used = int(statm.read().split()[0]) * resource.getpagesize()
    for kind, most in (
        (resource.RLIMIT_AS, used + memory),
        (resource.RLIMIT_NOFILE, files),
        (resource.RLIMIT_FSIZE, file_bytes),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))


def apply(walls: Sequence[str] = tuple(WALLS)) -> None:
    """Lock this process down. It must have one thread. walls: names out of ``WALLS``. Raises Missing."""
    os.chdir(sys.prefix)
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if path and os.path.abspath(path) != here]
    limit(MEMORY_BYTES, OPEN_FILES, 0)
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)  # not traced by others of the same user either
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise Missing(f"seccomp: the kernel refuses no_new_privs ({errno.errorcode[ctypes.get_errno()]})")
    if "landlock" in walls:
        _restrict_files()
    if "seccomp" in walls:
        _restrict_calls()


def missing() -> dict[str, str]:
    """Name and reason of every wall that cannot be built here, found out by building it in a process of its own."""
    found = {}
    for wall in WALLS:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                apply(walls=[wall])
            except Missing as problem:
                os.write(writing, str(problem).encode())
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as answer:
            reason = answer.read().decode()
        os.waitpid(child, 0)
        if reason:
            found[wall] = reason
    return found


def _restrict_files() -> None:
    version = _libc.syscall(_LANDLOCK_CREATE, None, 0, 1)
    if version < 1:
        reason = errno.errorcode[ctypes.get_errno()]
        raise Missing(f"landlock: the kernel has no Landlock, or it is switched off ({reason}; Linux 5.13 has it)")
    rights = (1 << _FS_RIGHTS.get(version, 16)) - 1
    network = 0b11 if version >= 4 else 0
    scopes = 0b11 if version >= 6 else 0
    attributes = struct.pack("QQQ", rights, network, scopes)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    rules = _libc.syscall(_LANDLOCK_CREATE, attributes, size, 0)
    if rules < 0:
        raise Missing(f"landlock: no rules can be made ({errno.errorcode[ctypes.get_errno()]})")
    for path, allowed in _rules():
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        if _libc.syscall(_LANDLOCK_ADD, rules, 1, struct.pack("=Qi", allowed, place), 0) != 0:
            raise Missing(f"landlock: no rule for {path} ({errno.errorcode[ctypes.get_errno()]})")
        os.close(place)
    if _libc.syscall(_LANDLOCK_RESTRICT, rules, 0) != 0:
        raise Missing(f"landlock: the rules are refused ({errno.errorcode[ctypes.get_errno()]})")
    os.close(rules)


def _rules() -> list[tuple[str, int]]:
    """Paths and the rights below them. Rights add up, so the standard library is taken apart to leave out packages."""
    standard = os.path.realpath(os.path.dirname(os.__file__))
    rules = [(standard, _READ_DIR)]
    whole = {os.path.realpath(path) for path in readable_paths()} - {standard}
    whole |= {os.path.join(standard, name) for name in os.listdir(standard) if name not in _OTHERS_PACKAGES}
    for path in sorted(whole):
        rules.append((path, _READ_FILE | _READ_DIR if os.path.isdir(path) else _READ_FILE))
    return rules


def _restrict_calls() -> None:
    if platform.machine() != "x86_64":
        raise Missing(f"seccomp: the list of system calls is for x86_64, this is {platform.machine()}")
    program = _filter()
    buffer = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
    head = struct.pack("HxxxxxxP", len(program), ctypes.addressof(buffer))
    if _libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, head, 0, 0) != 0:
        raise Missing(f"seccomp: the kernel refuses the filter ({errno.errorcode[ctypes.get_errno()]})")


def _filter() -> list[tuple[int, int, int, int]]:
    """Classic BPF over ``struct seccomp_data`` (number 0, architecture 4, arguments from 16, 8 bytes each)."""
    load, equal, any_set, answer = 0x20, 0x15, 0x45, 0x06
    allow, kill = (answer, 0, 0, 0x7FFF0000), (answer, 0, 0, 0x80000000)

    def refuse(number: int) -> tuple[int, int, int, int]:
        return (answer, 0, 0, 0x00050000 | number)

    lines = [(load, 0, 0, 4), (equal, 1, 0, _AUDIT_ARCH_X86_64), kill, (load, 0, 0, 0)]
    for number in sorted(_ALLOWED.values()):
        lines += [(equal, 0, 1, number), allow]
    for number, argument in ((_OPEN, 1), (_OPENAT, 2)):
        low = 16 + 8 * argument
        lines += [(equal, 0, 4, number), (load, 0, 0, low), (any_set, 0, 1, _WRITING), refuse(errno.EROFS), allow]
    tests = [line for command in _FCNTL_COMMANDS for line in ((equal, 0, 1, command), allow)]
    lines += [(equal, 0, len(tests) + 2, _FCNTL), (load, 0, 0, 24), *tests, refuse(errno.EPERM)]
    # prlimit64 reads limits when its third argument, the new limit, is null (both halves).
    lines += [(equal, 0, 6, _PRLIMIT64), (load, 0, 0, 32), (equal, 0, 3, 0)]
    lines += [(load, 0, 0, 36), (equal, 0, 1, 0), allow, refuse(errno.EPERM)]
    lines += [(equal, 0, 4, _CLONE), (load, 0, 0, 16), (any_set, 1, 0, _CLONE_THREAD), kill, refuse(errno.EPERM)]
    for number in _DEADLY.values():
        lines += [(equal, 0, 1, number), kill]
    return [*lines, (equal, 0, 1, _IOCTL), refuse(errno.ENOTTY), refuse(errno.EPERM)]


if __name__ == "__main__":
    print(json.dumps(missing()))
