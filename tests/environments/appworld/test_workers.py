"""A pool of workers: episodes apart from each other, on time, gone without a trace, and there again after any death."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import psutil
import pytest

from coevolve_lab.environments.appworld.package import AppWorldPackage
from coevolve_lab.environments.appworld.server import WALLS, missing_walls
from coevolve_lab.environments.appworld.workers import WorkerPool
from coevolve_lab.errors import ConfigError, EnvironmentFailure

pytestmark = pytest.mark.appworld


@pytest.fixture
def task(appworld: AppWorldPackage) -> str:
    return (appworld.mini_root / "data" / "datasets" / "train.txt").read_text().split()[0]


def test_an_episode_keeps_its_names_and_says_what_was_called(pool: WorkerPool, task: str) -> None:
    episode = pool.open(task)
    try:
        first = episode.execute("profile = apis.supervisor.show_profile()")
        assert (first.output, first.failed, first.done) == ("Execution successful.", False, False)
        assert first.calls == ("supervisor.show_profile",)
        assert "@" in episode.execute("print(profile['email'])").output
        wrong = episode.execute("print(apis.spotify.login(username='x', password='y'))")
        assert wrong.failed
        assert "Response status code is 401" in wrong.output
        assert wrong.calls == ("spotify.login",)
        last = episode.execute("apis.supervisor.complete_task(answer='blue')")
        assert last.done
        state = episode.finish()
        assert (state.answer, state.completed, state.tampering) == ("blue", True, ())
        assert (state.folder / "spotify.jsonl").is_file()
    finally:
        episode.close()
    assert not state.folder.exists()


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("1 +", "Syntax error in line"),
        ("print(1 / 0)", 'File "<python-input>", line 1'),
        ("apis.spotify.no_such_api()", "No API named 'no_such_api' found in the spotify app."),
        ("apis.no_such_app.login()", "No app named 'no_such_app' found."),
        ("apis.spotify.login('a', 'b')", "takes 0 positional arguments but 2 were given"),
        ("apis.spotify.login(username=datetime.datetime.now(), password='b')", "Invalid credentials"),
        ("apis.simple_note.create_note(title=datetime.datetime.now())", "is not JSON serializable"),
        ("apis.spotify.show_song(song_id='../../dbs/save#')", "Response status code is 4"),
        ("apis.admin.credit_to_card()", "No app named 'admin' found."),
        ("import requests", "Usage of the following module is not allowed: requests."),
        ("", "No code available to execute."),
    ],
)
def test_mistakes_are_answered_in_the_packages_words(pool: WorkerPool, task: str, code: str, said: str) -> None:
    episode = pool.open(task)
    try:
        execution = episode.execute(code, 60.0)
        assert (execution.failed, execution.done) == (True, False)
        assert said in execution.output
        assert episode.finish().tampering == ()
    finally:
        episode.close()


def test_odd_text_comes_through(pool: WorkerPool, task: str) -> None:
    episode = pool.open(task)
    try:
        assert episode.execute("print('a\\ud800b', '\\0', '\\U0001f600')").output == "a?b \0 \U0001f600\n"
        half = episode.execute("apis.supervisor.complete_task(answer='\\ud800')")
        assert "an argument cannot be sent" in half.output
        assert episode.execute("apis.supervisor.complete_task(answer='\\U0001f600')").done
        assert episode.finish().answer == "\U0001f600"
    finally:
        episode.close()


@pytest.mark.parametrize("module", ["statistics", "calendar", "uuid", "decimal", "pendulum", "yaml", "unittest"])
def test_what_agents_may_import_raises_no_alarm(pool: WorkerPool, task: str, module: str) -> None:
    episode = pool.open(task)
    try:
        episode.execute(f"import {module}\nprint(dir({module}), pendulum.now('Asia/Tokyo'), uuid.uuid1())")
        assert episode.finish().tampering == ()
    finally:
        episode.close()


def test_episodes_share_nothing(pool: WorkerPool, task: str) -> None:
    one, two = pool.open(task), pool.open(task)
    try:
        one.execute("x = 1\nbuiltins.y = 2\njson.loads = None\napis.supervisor.complete_task()")
        execution = two.execute("print('x' in globals(), hasattr(builtins, 'y'), json.loads('3'))")
        assert execution.output == "False False 3\n"
        assert not two.finish().completed
    finally:
        one.close()
        two.close()


def test_workers_are_as_many_as_said(pool: WorkerPool, task: str) -> None:
    one, two = pool.open(task), pool.open(task)
    try:
        with pytest.raises(EnvironmentFailure, match="no AppWorld worker got free within"):
            pool.open(task, seconds=0.1)
        one.finish()  # frees it
        three = pool.open(task, seconds=10.0)
        three.close()
    finally:
        one.close()
        two.close()
        two.close()


@pytest.mark.parametrize("name", ["nowhere_1", "../mini01_1", "", "a" * 500])
def test_unknown_tasks_are_refused(pool: WorkerPool, name: str) -> None:
    with pytest.raises(EnvironmentFailure, match="no task"):
        pool.open(name)


def test_a_pool_needs_a_worker(appworld: AppWorldPackage) -> None:
    with pytest.raises(ConfigError, match="at least one worker"):
        WorkerPool(appworld, appworld.mini_root, size=0)
    with pytest.raises(ConfigError, match="allow_missing holds 'moat'; it can hold seccomp, landlock"):
        WorkerPool(appworld, appworld.mini_root, allow_missing=["moat"])


def test_walls_are_found_to_be_there(appworld: AppWorldPackage, pool: WorkerPool) -> None:
    assert missing_walls(appworld) == {} == pool.server.missing
    assert tuple(pool.server.walls) == WALLS


def test_there_are_no_answers_where_workers_look(pool: WorkerPool, task: str) -> None:
    folder = pool.server.runtime / "data" / "tasks" / task
    assert {path.name for path in folder.iterdir()} == {"specs.json", "dbs"}


def test_after_a_kill_the_next_episode_is_there(pool: WorkerPool, task: str) -> None:
    episode = pool.open(task)
    try:
        psutil.Process(episode.pid).kill()
        with pytest.raises(EnvironmentFailure, match="process of AppWorld"):
            episode.execute("print(1)")
    finally:
        episode.close()
    server, spare = pool.server.pids()
    psutil.Process(server).kill()
    episode = pool.open(task)
    try:
        assert episode.execute("print(1)").output == "1\n"
    finally:
        episode.close()
    assert pool.server.pids()[0] == spare
    assert pool.server.pids()[1] not in (0, server, spare)


@pytest.mark.slow  # it starts a server of its own
def test_nothing_outlives_a_killed_owner(appworld: AppWorldPackage, task: str, tmp_path: Path) -> None:
    program = f"""
        from coevolve_lab.environments.appworld import package, workers
        found = package.find()
        pool = workers.WorkerPool(found, found.mini_root, 1)
        episode = pool.open({task!r})
        print(episode.pid, *pool.server.pids(), pool.server.runtime, flush=True)
        episode.execute("while True: pass", 1000.0)
    """
    owner = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    with owner:
        assert owner.stdout is not None
        *numbers, runtime = owner.stdout.readline().split()
        left = [psutil.Process(int(number)) for number in numbers]
        left += left[0].children()
        assert len(left) == 4  # the world, its code, the server, its spare
        os.kill(owner.pid, signal.SIGKILL)
    _, alive = psutil.wait_procs(left, timeout=20)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]
    deadline = time.monotonic() + 20
    while Path(runtime).exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(runtime).exists()


def test_an_interrupted_request_is_never_answered_later(pool: WorkerPool, task: str) -> None:
    episode = pool.open(task)
    try:
        threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            episode.execute("while True: apis.supervisor.show_profile()")
        with pytest.raises(EnvironmentFailure, match="open another"):
            episode.execute("print('SECOND')")
    finally:
        episode.close()
    other = pool.open(task)
    try:
        assert other.execute("print('THIRD')").output.strip() == "THIRD"
    finally:
        other.close()


def test_what_is_no_number_is_a_mistake_and_no_attack(pool: WorkerPool, task: str) -> None:
    episode = pool.open(task)
    try:
        assert episode.execute("apis.supervisor.complete_task(answer=float('nan'))").failed
        assert episode.finish().tampering == ()
    finally:
        episode.close()
