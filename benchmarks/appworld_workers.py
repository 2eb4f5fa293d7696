"""How fast AppWorld's workers are, how much memory they take, and how soon a broken one is replaced.

    python benchmarks/appworld_workers.py --episodes 500 --workers 2

Every episode is a whole one with isolation on: open, the task's solution from the mini world (or --short: one call),
finish, score, close. Wall-clock rates depend on what else the machine does, so CPU seconds are told too: what all
processes of the pool used, and the episodes per second that two cores to themselves would give. Memory is the resident
set of the fork server, and the proportional set (shared pages divided among their users) of an episode's two
processes, at the start and at the end.
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from statistics import fmean

import psutil

from coevolve_lab.environments.appworld import package
from coevolve_lab.environments.appworld.scoring import Scorer
from coevolve_lab.environments.appworld.workers import WorkerPool

MIB = 1 << 20
SHORT = "print(apis.supervisor.show_profile())"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--short", action="store_true", help="one API call instead of the solution")
    arguments = parser.parse_args()
    found = package.find()
    root = found.mini_root
    tasks = sorted(path.name for path in (root / "data" / "tasks").iterdir())
    started = time.monotonic()
    with WorkerPool(found, root, arguments.workers) as pool, Scorer(found, root, pool.server) as scorer:
        print(f"load {os.getloadavg()[0]:.1f}; start of the server {time.monotonic() - started:.1f} s")
        memory: list[tuple[float, float, float]] = []
        lock = threading.Lock()
        wrong: list[str] = []

        def play(number: int) -> None:
            task = tasks[number % len(tasks)]
            episode = pool.open(task)
            try:
                solution = (root / "data" / "tasks" / task / "ground_truth" / "solution.py").read_text()
                code = SHORT if arguments.short else f"{solution}\nsolution(apis, None)"
                episode.execute(code, 300.0)
                if number % max(1, arguments.episodes // 20) == 0:
                    world = psutil.Process(episode.pid)
                    pair = [process.memory_full_info().pss / MIB for process in (world, *world.children())]
                    server = psutil.Process(pool.server.pids()[0]).memory_info().rss / MIB
                    with lock:
                        memory.append((server, pair[0], sum(pair[1:])))
                report = scorer.score(task, episode.finish())
                if report.success == arguments.short:
                    wrong.append(task)
            finally:
                episode.close()

        began, used = time.monotonic(), _cpu(pool)
        with ThreadPoolExecutor(arguments.workers) as threads:
            list(threads.map(play, range(arguments.episodes)))
        wall, used = time.monotonic() - began, _cpu(pool) - used
        each = used / arguments.episodes
        print(f"{arguments.episodes} episodes: {arguments.episodes / wall:.2f}/s; {each:.2f} CPU s each")
        print(f"  that is {2 / each:.1f} episodes/s on two cores; load {os.getloadavg()[0]:.1f}")
        print(f"  unexpected scores: {wrong or 'none'}")
        for name, rows in (("first", memory[:3]), ("last", memory[-3:])):
            server, world, code = (fmean(row[index] for row in rows) for index in range(3))
            print(f"  memory, {name} three: server {server:.0f} MiB, world {world:.0f} MiB, code {code:.0f} MiB")
        print(f"  processes left: {len(psutil.Process(pool.server.pids()[0]).children(recursive=True)) - 1}")
        _recovery(pool, tasks[0])


def _cpu(pool: WorkerPool) -> float:
    """CPU seconds of the server and of all children that it has waited for, theirs included."""
    times = psutil.Process(pool.server.pids()[0]).cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)


def _recovery(pool: WorkerPool, task: str) -> None:
    """Seconds from the end of a hung or killed process to the first answer of its successor."""
    for name in ("hung code", "killed world", "killed server"):
        episode = pool.open(task)
        if name == "hung code":
            deaf = "s = builtins.__import__('signal')\ns.signal(s.SIGALRM, s.SIG_IGN)\nwhile True: pass"
            episode.execute(deaf, 1.0)
        else:
            psutil.Process(episode.pid if name == "killed world" else pool.server.pids()[0]).kill()
        began = time.monotonic()
        episode.close()
        episode = pool.open(task)
        episode.execute(SHORT)
        print(f"  after {name}: a usable one in {time.monotonic() - began:.2f} s (load {os.getloadavg()[0]:.1f})")
        episode.close()


if __name__ == "__main__":
    main()
