"""AppWorld behind the environment protocol, played for real in the mini world."""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path
from typing import Any

import pytest

from coevolve_lab.config import RolloutConfig
from coevolve_lab.environments import make
from coevolve_lab.environments.appworld import environment as module
from coevolve_lab.environments.appworld import package
from coevolve_lab.environments.appworld.environment import AppWorldEnvironment
from coevolve_lab.environments.appworld.package import AppWorldPackage, has_real_data
from coevolve_lab.environments.appworld.scoring import Scorer
from coevolve_lab.environments.appworld.workers import WorkerPool
from coevolve_lab.environments.base import Environment, RiskRules, ScriptedWorld, content_of
from coevolve_lab.errors import ConfigError, EnvironmentFailure, PrerequisiteError
from coevolve_lab.evaluation import sgc, tgc
from coevolve_lab.policy.rollout import play as roll_out
from coevolve_lab.records import Task
from tests.environments.appworld.worlds import mini_world

pytestmark = pytest.mark.appworld


@pytest.fixture(scope="module")
def world(appworld: AppWorldPackage, pool: WorkerPool, scorer: Scorer) -> AppWorldEnvironment:
    return mini_world(appworld, pool, scorer)


def play(world: AppWorldEnvironment, task: Task, *actions: str) -> tuple[float, list[tuple[str, bool]]]:
    session = world.open(task)
    try:
        heard = [session.step(action) for action in actions]
        return session.score(), heard
    finally:
        session.close()


def synthesized(world: AppWorldEnvironment, *programs: str) -> Task:
    start = world.tasks("explore")[0].start
    return Task("made", "appworld", ("Do it.",), start, (programs,), origin="seed")


def noted(title: str = "Milk", more: str = "") -> str:
    """A program that writes a note for the supervisor of the first start."""
    return (
        "found = {a['account_name']: a['password'] for a in apis.supervisor.show_account_passwords()}\n"
        "user = apis.supervisor.show_profile()['email']\n"
        "token = apis.simple_note.login(username=user, password=found['simple_note'])['access_token']\n"
        f"apis.simple_note.create_note(title={title!r}, content='two bottles', access_token=token)\n{more}"
    )


def test_it_offers_what_the_loop_and_the_scripted_explorer_ask_for(world: AppWorldEnvironment) -> None:
    assert isinstance(world, Environment)
    assert isinstance(world, ScriptedWorld)
    assert isinstance(world, RiskRules)


def test_its_fingerprint_is_that_of_the_world_on_disk(world: AppWorldEnvironment, appworld: AppWorldPackage) -> None:
    assert content_of(world) == (appworld.mini_root / "fingerprint.txt").read_text()


def test_splits_share_no_scenario_and_exploration_keeps_to_training(world: AppWorldEnvironment) -> None:
    splits = {name: world.tasks(name) for name in world.splits()}
    assert list(splits) == ["train", "dev", "test_normal", "test_challenge", "explore"]
    starts = [task.start["task"] for name in ("train", "dev", "test_normal", "test_challenge") for task in splits[name]]
    assert len(starts) == len(set(starts)) >= 36
    scenarios = {name: {task.start["task"].rsplit("_", 1)[0] for task in tasks} for name, tasks in splits.items()}
    assert scenarios["explore"] == scenarios["train"]
    assert not scenarios["train"] & (scenarios["dev"] | scenarios["test_normal"] | scenarios["test_challenge"])
    assert all(not task.turns and task.origin == "seed" for task in splits["explore"])
    with pytest.raises(ConfigError, match="no split 'test'; it has train, dev"):
        world.tasks("test")


def test_a_task_is_played_by_programs(world: AppWorldEnvironment) -> None:
    task = world.tasks("train")[0]
    session = world.open(task)
    try:
        assert task.turns[0] in session.observation
        assert session.supervisor["email"] in session.observation
        said, done = session.step("First the accounts.\n```python\nx = 4\nprint(apis.supervisor.show_profile())\n```")
        assert (json.loads(said)["email"], done) == (session.supervisor["email"], False)
        assert (session.last_tools, session.last_failed) == (("supervisor.show_profile",), False)
        said, done = session.step("print(x); 1 / 0")
        assert "ZeroDivisionError" in said
        assert (session.last_tools, session.last_failed, done) == (("execute_code",), True, False)
        for unreadable in ("```python\nprint(\n```", "apis.phone.login(", "```\na()\n```\n```\nb()\n```"):
            said, done = session.step(unreadable)
            assert said.startswith("Nothing was run: ")
            assert (session.last_tools, session.last_failed, done) == ((), True, False)
        said, done = session.step("print('a' * 10_000)")
        assert said.endswith("more characters were cut]")
        assert len(said) < 4100
        assert session.step("That is all.") == ("", True)
        assert session.step("print(1)") == ("The episode is over.", True)
        assert session.score() == 0.0
    finally:
        session.close()


def test_oracle_nothing_and_sabotage_are_scored_as_the_package_scores_them(world: AppWorldEnvironment) -> None:
    """One scenario here; ``test_mini_world`` holds all of them against the package's own command."""
    tasks = world.tasks("test_normal")[:3]
    solved = {task.id: play(world, task, world.oracle(task))[0] == 1.0 for task in tasks}
    assert (tgc(solved), sgc(solved)) == (100.0, 100.0)
    nothing = {task.id: play(world, task, "Done.")[0] == 1.0 for task in tasks}
    assert tgc(nothing) == 0.0
    sabotage = noted(more=world.oracle(tasks[0]))
    mixed = solved | {tasks[0].id: play(world, tasks[0], sabotage)[0] == 1.0}
    assert (round(tgc(mixed), 1), sgc(mixed)) == (66.7, 0.0)


def test_a_program_without_end_is_stopped_and_solves_nothing(world: AppWorldEnvironment) -> None:
    """Whether it obeys (then the episode goes on) or has to be killed (then it is over) is the workers' business."""
    hasty = AppWorldEnvironment(workers=1, step_seconds=1)
    task = hasty.tasks("train")[0]
    endless = "while True:\n    try: print(apis)\n    except BaseException: pass"
    score, heard = play(hasty, task, endless, "print('on')")
    assert score == 0.0
    assert heard[0][0].startswith(("Execution failed", "The program did not end within 1 seconds"))
    assert heard[1] in (("on\n", False), ("The episode is over.", True))


def test_a_synthesized_task_is_solved_by_the_same_changes_and_nothing_else(world: AppWorldEnvironment) -> None:
    task = synthesized(world, noted())
    other_way = noted().replace("title=", "tags=[], title=")
    looking = f"print(apis.supervisor.show_addresses())\n{noted()}"
    assert play(world, task, noted(), "Done.")[0] == 1.0
    assert play(world, task, other_way)[0] == 1.0
    assert play(world, task, looking)[0] == 1.0
    assert play(world, task, noted(more="apis.supervisor.complete_task()"))[0] == 1.0
    for wrong in ("Done.", noted("Bread"), noted(more=noted("Eggs"))):
        assert play(world, task, wrong)[0] == 0.0
    assert play(world, task, noted(more="apis.supervisor.complete_task(answer=3)"))[0] == 0.0


def test_a_synthesized_question_is_solved_by_its_answer(world: AppWorldEnvironment) -> None:
    asked = "apis.supervisor.complete_task(answer=apis.supervisor.show_profile()['first_name'])"
    task = synthesized(world, asked)
    session = world.open(task)
    name = session.supervisor["first_name"]
    session.close()
    assert play(world, task, f"apis.supervisor.complete_task(answer={name.upper()!r})")[0] == 1.0
    assert play(world, task, "apis.supervisor.complete_task(answer='Nobody')")[0] == 0.0
    assert play(world, task, "apis.supervisor.complete_task()")[0] == 0.0
    assert play(world, task, "Done.")[0] == 0.0


@pytest.mark.parametrize(
    "solution",
    [
        "import random; apis.supervisor.complete_task(answer=random.SystemRandom().random())",
        "apis.simple_note.show_note(note_id=-1, access_token='none')",
        "print(",
    ],
)
def test_a_solution_that_fails_or_is_not_deterministic_solves_nothing(
    world: AppWorldEnvironment, solution: str
) -> None:
    task = synthesized(world, solution)
    assert play(world, task, solution)[0] == 0.0
    assert play(world, task, "Done.")[0] == 0.0


def test_the_diff_shows_what_was_changed(world: AppWorldEnvironment) -> None:
    task = world.tasks("explore")[0]
    session = world.open(dataclasses.replace(task, turns=("Write a note.",)))
    try:
        session.step(noted())
        outcome = world.outcome(session)
    finally:
        session.close()
    assert outcome is not None
    assert outcome.answer is None
    (note,) = outcome.changes["simple_note"]["Note"]["added"]
    assert (note["title"], note["content"]) == ("Milk", "two bottles")


def test_further_user_turns_are_heard(world: AppWorldEnvironment) -> None:
    start = world.tasks("explore")[0].start
    session = world.open(Task("talk", "appworld", ("First.", "Second."), start))
    try:
        assert session.step("Done.") == ("Second.", False)
        assert session.turn == 1
        assert session.step("Done.") == ("", True)
    finally:
        session.close()


def test_no_more_sessions_are_open_than_there_are_workers(
    world: AppWorldEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.2)
    session = world.open(world.tasks("train")[0])
    with pytest.raises(EnvironmentFailure, match=r"all 1 sessions .*workers"):
        world.open(world.tasks("train")[1])
    session.close()
    session.close()
    world.open(world.tasks("train")[1]).close()


@pytest.mark.parametrize(
    "start",
    [{}, {"task": "no_such_1", "world": "mini"}, {"task": "../../etc", "world": "mini"}, {"task": 3, "world": "mini"}],
)
def test_a_start_that_does_not_exist_is_a_failure_of_the_environment(
    world: AppWorldEnvironment, start: dict[str, Any]
) -> None:
    with pytest.raises(EnvironmentFailure, match=r"AppWorld|world"):
        world.open(Task("t", "appworld", ("?",), start))
    world.open(world.tasks("train")[0]).close()  # its place was given back


def test_options_that_cannot_be_used_are_explained() -> None:
    with pytest.raises(ConfigError, match="'mini' or 'real', not 'huge'"):
        make("appworld", world="huge")
    with pytest.raises(ConfigError, match="above 0"):
        make("appworld", workers=0)
    with pytest.raises(ConfigError, match=r"no app 'fax' to walk; there is amazon"):
        make("appworld", apps=["fax"]).tool_names({})


def test_the_walk_starts_apart_from_what_is_held_out(world: AppWorldEnvironment) -> None:
    train = {world.start("train", random.Random(i))["task"] for i in range(20)}
    held_out = {world.start("held_out", random.Random(i))["task"] for i in range(20)}
    assert train <= {task.id for task in world.tasks("train")}
    assert held_out <= {task.id for task in world.tasks("dev")}
    with pytest.raises(ConfigError, match="no pool of starts"):
        world.start("test", random.Random(0))


def test_risky_apis_are_named(world: AppWorldEnvironment) -> None:
    pay = "apis.venmo.create_transaction(receiver_email='a@b.c', amount=3, access_token=t)"
    drop = "```python\nprint(apis.simple_note.delete_note(note_id=1, access_token=t))\n```"
    text = "apis.phone.send_text_message(phone_number='1', message='hi', access_token=t)"
    look = "print(apis.simple_note.show_note(note_id=1, access_token=t))"
    assert world.risks([[pay, drop], [text, look, pay]]) == [
        "It moves money (venmo.create_transaction).",
        "It deletes something (simple_note.delete_note).",
        "It sends something to another person (phone.send_text_message).",
    ]
    assert world.risks([["```\na()\n```\n```\nb()\n```"]]) == ["A program of its solution cannot be read."]
    assert world.risks([["apis.bank.rob()"]]) == ["It calls an API that is not documented (bank.rob)."]
    for program in (
        "v = apis.venmo\nprint(v.create_transaction(amount=500))",
        "pay = apis.venmo.create_transaction\npay(amount=500)",
        "print(apis['venmo']['create_transaction'](amount=500))",
        "print(getattr(apis.venmo, 'create_transaction')(amount=500))",
    ):
        assert world.risks([[program, look]]) == ["It reaches an API in a way that cannot be read."]


def test_the_real_data_take_the_same_path(appworld: AppWorldPackage, pool: WorkerPool, scorer: Scorer) -> None:
    if not has_real_data(appworld):
        pytest.skip(f"the data of the AppWorld benchmark are not here ({package.DOWNLOAD_COMMAND}, with a network)")
    world = AppWorldEnvironment(world="real", workers=1)
    sizes = {split: len(world.tasks(split)) for split in ("train", "dev", "test_normal", "test_challenge")}
    assert sizes == {"train": 90, "dev": 57, "test_normal": 168, "test_challenge": 417}
    assert play(world, world.tasks("dev")[0], "Done.")[0] == 0.0


def test_real_data_that_are_missing_are_named_with_their_command(
    appworld: AppWorldPackage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package, "find", lambda: AppWorldPackage(appworld.python, appworld.mini_root, tmp_path))
    with pytest.raises(PrerequisiteError, match=package.DOWNLOAD_COMMAND):
        make("appworld", world="real")


def test_sessions_that_were_dropped_do_not_fill_the_places(
    appworld: AppWorldPackage, pool: WorkerPool, scorer: Scorer
) -> None:
    """A notebook cell that opens a session is run again and again; the name holds the one before meanwhile."""
    wide = mini_world(appworld, pool, scorer, workers=2)
    task = wide.tasks("train")[0]
    for _ in range(4):
        session = wide.open(task)
    session.close()


def test_an_interrupted_rollout_lets_go_of_its_sessions(world: AppWorldEnvironment) -> None:
    class Interrupted:
        policy_version = 0

        def generate(self, requests: Any, temperature: float, seed: int) -> Any:
            raise KeyboardInterrupt

        def release(self, keys: Any) -> None:
            pass

    class Chat:
        def prompt(self, observation: str, tools: Any) -> list[int]:
            return [1]

    opened: list[Any] = []
    original = world.open
    world.open = lambda task: opened.append(original(task)) or opened[-1]  # type: ignore[method-assign,func-returns-value]
    try:
        with pytest.raises(KeyboardInterrupt):
            roll_out(
                world, world.tasks("train")[:3], Interrupted(), Chat(), RolloutConfig(),  # type: ignore[arg-type]
                group_size=1, temperature=1.0, max_steps=2, seed=0, label="x",
            )  # fmt: skip
    finally:
        world.open = original  # type: ignore[method-assign]
    assert opened
    assert all(session.closed for session in opened)
