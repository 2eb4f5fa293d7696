"""No program of an agent forges a score, leaves its process, or holds up a worker; and an attempt is known of."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import psutil
import pytest

from coevolve_lab.environments.appworld.package import INSIDE, AppWorldPackage
from coevolve_lab.environments.appworld.scoring import Report, Scorer
from coevolve_lab.environments.appworld.workers import EpisodeState, Execution, WorkerPool
from tests.environments.appworld.hostile_programs import PRELUDE, PROGRAMS

pytestmark = [pytest.mark.appworld, pytest.mark.slow, pytest.mark.timeout(1800)]
SECONDS = 20.0
SHORT_SECONDS = 1.0  # for those that do not end by themselves
ENDLESS = ("loop", "frame_never", "much_memory", "deep_")


@dataclass(frozen=True)
class Played:
    """What became of all programs, and of what is around them: two folders, and a server that listens."""

    outcomes: Mapping[str, tuple[Execution, EpisodeState, Report]]
    canary: Mapping[str, str]
    other: tuple[str, ...]
    reached: bool


@pytest.fixture(scope="module")
def task(appworld: AppWorldPackage) -> str:
    """One that cannot be solved by doing nothing."""
    return (appworld.mini_root / "data" / "datasets" / "train.txt").read_text().split()[0]


@pytest.fixture(scope="module")
def played(
    appworld: AppWorldPackage, pool: WorkerPool, scorer: Scorer, task: str, tmp_path_factory: pytest.TempPathFactory
) -> Played:
    canary = tmp_path_factory.mktemp("canary")
    (canary / "kept").write_text("kept")
    other = tmp_path_factory.mktemp("other")
    (other / "data").write_text("data")
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(2) as threads:
        server.setblocking(False)
        answer = appworld.mini_root / "data" / "tasks" / task / "ground_truth" / "answer.json"
        places = {"ROOT": appworld.mini_root, "ANSWER": answer, "TASK": task, "INSIDE": INSIDE}
        places |= {"CANARY": canary, "OTHER": other}
        texts = {f"<{name}>": str(place) for name, place in places.items()}
        texts["<PORT>"] = str(server.getsockname()[1])

        def play(name: str) -> tuple[Execution, EpisodeState, Report]:
            code = PRELUDE + PROGRAMS[name][1]
            for short, text in texts.items():
                code = code.replace(short, text)
            episode = pool.open(task)
            try:
                execution = episode.execute(code, SHORT_SECONDS if name.startswith(ENDLESS) else SECONDS)
                state = episode.finish()
                return execution, state, scorer.score(task, state)
            finally:
                episode.close()

        outcomes = dict(zip(PROGRAMS, threads.map(play, PROGRAMS), strict=True))
        try:
            server.accept()
            reached = True
        except BlockingIOError:
            reached = False
    kept = {path.name: path.read_text() for path in canary.iterdir()}
    return Played(outcomes, kept, tuple(path.name for path in other.iterdir()), reached)


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_program_gets_away_with_it(played: Played, name: str) -> None:
    execution, state, report = played.outcomes[name]
    assert not report.success
    assert PROGRAMS[name][0] in (None, bool(state.tampering)), (execution, state.tampering)


def test_nothing_outside_was_changed_or_reached(played: Played) -> None:
    assert played.canary == {"kept": "kept"}
    assert played.other == ("data",)
    assert not played.reached


def test_no_answer_is_in_an_output(played: Played, appworld: AppWorldPackage, task: str) -> None:
    secret = (appworld.mini_root / "data" / "tasks" / task / "ground_truth" / "private_data.json").read_text().strip()
    assert not [name for name, (execution, _, _) in played.outcomes.items() if secret in execution.output]


def test_endless_programs_were_stopped(played: Played) -> None:
    stopped = {name for name, (execution, _, _) in played.outcomes.items() if execution.timed_out}
    assert {"loop_that_swallows", "loop_deaf_to_alarms", "loop_with_signals_blocked", "frame_never_finished"} <= stopped
    loop = played.outcomes["loop"][0]
    assert loop.timed_out or "timed out after 1 seconds" in loop.output


def test_output_is_bounded(played: Played) -> None:
    assert len(played.outcomes["much_output"][0].output) < 250_000


def test_no_process_is_left(played: Played, pool: WorkerPool) -> None:
    server, spare = pool.server.pids()
    assert {child.pid for child in psutil.Process(server).children(recursive=True)} <= {spare}


def test_an_honest_solution_passes_afterwards(
    played: Played, appworld: AppWorldPackage, pool: WorkerPool, scorer: Scorer, task: str
) -> None:
    code = (appworld.mini_root / "data" / "tasks" / task / "ground_truth" / "solution.py").read_text()
    episode = pool.open(task)
    try:
        execution = episode.execute(f"{code}\nsolution(apis, None)", 60.0)
        state = episode.finish()
        report = scorer.score(task, state)
    finally:
        episode.close()
    assert (execution.failed, execution.done, state.tampering) == (False, True, ())
    assert report.success
    assert not report.failed
