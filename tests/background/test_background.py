"""Runs in real kernels: they do what the foreground does, and can be asked, left, killed and found again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import psutil
import pytest

from coevolve_lab import CoEvolve
from coevolve_lab.background import PROGRESS, Background
from coevolve_lab.background.kernel import connected, launch_kernel
from coevolve_lab.errors import BackgroundError, RunLockedError, StoreError
from tests.loop_world import CONFIG, assert_nothing_twice, new_run, rows, warm_cache

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures(warm_cache.__name__)]
ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 3
PLAIN, SLOW, FAILING = "tests.loop_world", "tests.background.slow_world", "tests.background.failing_world"


def kernels_below(folder: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = process.info["cmdline"] or []
        if "ipykernel_launcher" in words and any(str(folder) in word for word in words):
            found.append(process)
    return found


@pytest.fixture(scope="module", autouse=True)
def _no_kernel_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    yield
    _, left = psutil.wait_procs(kernels_below(tmp_path_factory.getbasetemp()), timeout=10)
    for process in left:
        process.kill()
    assert not left


@pytest.fixture
def run(tmp_path: Path) -> Iterator[CoEvolve]:
    """A new run; a failed test leaves no kernel to the next one."""
    made = new_run(tmp_path / "run")
    yield made
    made.stop(discard=True)
    made.close()


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory, warm_cache: Path) -> dict[str, list[dict[str, Any]]]:
    """What three rounds in the foreground record."""
    with new_run(tmp_path_factory.mktemp("straight") / "run") as made:
        made.rounds(ROUNDS)
        return rows(made)


def assert_same(run: CoEvolve, straight: dict[str, list[dict[str, Any]]]) -> None:
    ours = rows(run)
    for table, expected in straight.items():
        assert ours[table] == expected, table
    assert_nothing_twice(run)


def until(condition: Callable[[], Any], seconds: float = 60.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < deadline, "this did not happen in time"
        time.sleep(0.02)
    return result


def test_a_run_in_the_background_is_the_run_in_the_foreground(run: CoEvolve, straight: Any) -> None:
    begun = run.start(ROUNDS, imports=[PLAIN])
    assert begun.state in ("running", "finished")
    done = run.background.wait("finished")
    assert (done.round, done.rounds, done.committed, done.error, done.pid) == (ROUNDS, ROUNDS, ROUNDS, "", None)
    assert_same(run, straight)
    assert f"round {ROUNDS} of {ROUNDS} committed" in run.logs()
    with duckdb.connect(str(run.run_dir / "run.duckdb"), read_only=True) as snapshot:
        assert snapshot.execute("select max(round) from updates").fetchall() == [(ROUNDS,)]
    run.round()  # the foreground goes on at once
    assert run.reader.committed_round == ROUNDS + 1
    assert run.status().state == "idle"
    assert run.status().round == ROUNDS + 1


def test_paused_resumed_interrupted_and_stopped_it_is_still_the_same_run(run: CoEvolve, straight: Any) -> None:
    run.start(ROUNDS, imports=[SLOW])
    run.pause()
    paused = run.background.wait("paused")
    assert paused.pid is not None
    assert psutil.pid_exists(paused.pid)
    assert (run.run_dir / "run.duckdb").is_file()
    with pytest.raises(RunLockedError, match=r"paused in its background kernel \(pid \d+\).*run\.stop\(\)"):
        run.round()
    with pytest.raises(RunLockedError, match="paused in its background kernel"):
        run.start()
    assert run.tasks().height == CONFIG["evolution"]["initial_tasks"]  # looking is free
    again = new_run(run.run_dir)  # the notebook's first cell once more: attaches
    assert again.status().state == "paused"

    assert paused.connection_file is not None
    console = [Path(sys.executable).with_name("jupyter"), "console", "--simple-prompt"]
    visit = subprocess.run(
        [*console, "--existing", paused.connection_file],
        input="print('round', run.round_in_progress)\nexit\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "round 1" in visit.stdout
    assert run.status().state == "paused"  # exit closed the console only
    with connected(Path(paused.connection_file)) as client:
        asked = client.execute("", user_expressions={"round": "run.round_in_progress"})
        reply = until(lambda: _reply_to(client, asked))
        assert reply["content"]["user_expressions"]["round"]["data"]["text/plain"] == "1"
        assert again.resume().state == "running"
        live = until(lambda: _progress(client))
        assert live["state"] == "running"
        assert live["rounds"] == ROUNDS

    until(lambda: again.status().stage == "signals")
    again.interrupt()
    interrupted = again.background.wait("paused")
    assert "interrupted in" in interrupted.message
    assert interrupted.pid == paused.pid
    assert again.resume().state == "running"
    again.pause()
    assert again.resume().state == "running"  # taken back, or gone on after it
    again.stop()
    stopped = again.background.wait("idle")
    assert stopped.committed is not None
    assert 1 <= stopped.committed < ROUNDS
    until(lambda: not psutil.pid_exists(paused.pid) or psutil.Process(paused.pid).status() == psutil.STATUS_ZOMBIE)
    again.resume()
    assert again.background.wait("finished").sitting == 1  # a kernel of its own
    assert_same(again, straight)
    again.close()


def _reply_to(client: Any, asked: str) -> Any:
    message = client.get_shell_msg(timeout=10)
    return message if message["parent_header"].get("msg_id") == asked else None


def _progress(client: Any) -> Any:
    return client.get_iopub_msg(timeout=10)["content"].get("data", {}).get(PROGRESS)


def test_a_killed_kernel_is_noticed_and_resume_goes_on_from_the_last_commit(run: CoEvolve, straight: Any) -> None:
    run.start(ROUNDS, imports=[SLOW])
    pid = until(lambda: run.status().committed and run.status().pid)
    os.kill(pid, signal.SIGKILL)
    dead = run.background.wait("dead")
    assert f"(pid {pid}) is dead: killed by SIGKILL" in dead.message
    assert f"rounds up to {dead.committed} are committed" in dead.message
    assert CoEvolve.open(run.run_dir).status().state == "dead"
    run = CoEvolve.open(run.run_dir)
    assert run.resume().pid != pid
    run.background.wait("finished")
    assert_same(run, straight)


def test_a_run_that_fails_says_why_and_can_be_started_again(run: CoEvolve, straight: Any) -> None:
    run.start(ROUNDS, imports=[FAILING])
    failed = run.background.wait("failed")
    assert failed.error == "ExplorerError: the model server went away"
    assert failed.committed == 1
    assert "the model server went away" in str(failed)
    assert "Traceback" in run.logs(100)
    until(lambda: not kernels_below(run.run_dir))
    run.rounds(ROUNDS)  # whatever was wrong with the explorer there is not wrong here
    assert_same(run, straight)


def test_other_processes_see_and_control_it(run: CoEvolve) -> None:
    def command(*words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "coevolve_lab", *words], cwd=ROOT, stdout=subprocess.PIPE, stderr=-1, text=True
        )

    def said(process: subprocess.Popen[str]) -> str:
        out, complaint = process.communicate(timeout=60)
        assert process.returncode == 0, complaint
        return out

    folder = str(run.run_dir)
    run.close()
    begun = said(command("start", folder, "--rounds", "50", "--import", SLOW))
    assert begun.startswith("running: round 0 of 50")
    query = "select count(*) as n from tasks"
    readers = [command("status", folder), command("sql", folder, query), command("sql", folder, query)]
    outputs = [said(reader) for reader in readers]
    assert outputs[0].startswith("running: round")
    assert "connection file" in outputs[0]
    assert all("| n" in output for output in outputs[1:])
    said(command("pause", folder))
    paused = run.background.wait("paused")
    said(command("start", folder))  # goes on
    assert run.status().sitting == paused.sitting + 1
    assert "going on towards round 50" in said(command("logs", folder, "-n", "1000"))
    until(lambda: run.status().step)
    run.pause()
    paused = run.background.wait("paused")
    said(command("stop", folder))  # it still finishes the round that it was in
    stopped = run.background.wait("idle")
    assert stopped.committed == run.reader.committed_round
    # paused between two rounds, it may not have begun the one that it names
    assert stopped.committed in ({paused.round} if paused.step else {paused.round - 1, paused.round})
    for _ in range(2):  # after a stop, and after one that discards: as it was started, SLOW imported too
        again = said(command("start", folder))
        assert again.startswith("running: round")
        assert " of 50" in again
        assert said(command("stop", folder, "--discard")).startswith("idle")
    run.round()


def test_what_cannot_be_imported_is_told_by_start(run: CoEvolve, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("from coevolve_lab.nowhere import anything")
    for imports, told in (["no_such_module"], "No module named 'no_such_module'"), (["nowhere.py"], "is not a file"):
        with pytest.raises(BackgroundError, match=told):
            run.start(imports=imports)
    with pytest.raises(BackgroundError, match=r"coevolve_lab\.nowhere"):
        run.start(imports=[str(tmp_path / "mine.py")])
    assert run.status().state == "idle"
    assert not kernels_below(run.run_dir)


def test_a_begun_round_is_not_lost_by_starting(run: CoEvolve) -> None:
    run.seed_tasks()
    run.rollout()
    with pytest.raises(StoreError, match=r"round 1 has records that are not committed.*run\.close\(\)"):
        run.start()
    run.round()
    assert run.reader.committed_round == 1


def test_a_folder_that_is_no_run_is_called_that(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"is not a run: no config\.json in it"):
        Background(tmp_path).status()
    with pytest.raises(StoreError, match=r"does not exist: moved or deleted"):
        Background(tmp_path / "gone").status()


def test_a_run_without_a_kernel_answers_too(run: CoEvolve) -> None:
    for answer in (run.status(), run.pause(), run.stop(), run.stop(discard=True), run.interrupt()):
        assert answer.state == "idle"
    assert run.logs() == ""
    with pytest.raises(BackgroundError, match="was never in the background"):
        run.resume()
    code = f"from coevolve_lab.store import RunWriter; w = RunWriter.open({str(run.run_dir)!r}); print(1); input()"
    run.close()
    with subprocess.Popen([sys.executable, "-uc", code], cwd=ROOT, stdin=-1, stdout=-1, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "1\n"
        with pytest.raises(RunLockedError, match=f"pid {other.pid}"):
            run.start()
        other.kill()
    assert run.status().state == "idle"


def test_a_copied_folder_does_not_take_its_origin_for_itself(run: CoEvolve, tmp_path: Path) -> None:
    run.close()
    run.background.folder.mkdir()
    process = launch_kernel(run.background.folder, cwd=tmp_path)
    try:
        assert run.status().state == "running"
        shutil.copytree(run.run_dir, tmp_path / "copy", ignore=lambda folder, names: [n for n in names if "-" in n])
        copy = CoEvolve.open(tmp_path / "copy", progress=False)
        assert copy.status().state == "idle"
        copy.stop(discard=True)
        copy.seed_tasks()
        assert process.alive()
    finally:
        run.stop(discard=True)
    assert not process.alive()


@pytest.mark.parametrize("length", [1, 120])
def test_only_its_owner_reaches_a_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: int) -> None:
    folder = tmp_path / ("x" * length)
    folder.mkdir()
    monkeypatch.setenv("JPY_PARENT_PID", str(os.getpid()))  # as in a notebook
    process = launch_kernel(folder, cwd=tmp_path)
    try:
        path = folder / process.detail["connection_file"]
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        connection = json.loads(path.read_text())
        assert connection["key"]
        assert (connection["transport"], connection["ip"]) == (
            ("ipc", str(path.with_suffix(""))) if length == 1 else ("tcp", "127.0.0.1")
        )
        with connected(path) as client:
            asked = client.execute("import os; assert 'JPY_PARENT_PID' not in os.environ")
            assert until(lambda: _reply_to(client, asked))["content"]["status"] == "ok"
    finally:
        process.end()
