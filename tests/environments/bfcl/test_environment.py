from __future__ import annotations

import dataclasses
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from coevolve_lab.environments import make
from coevolve_lab.environments.bfcl import held_out, package, tools
from coevolve_lab.environments.bfcl.api import CLASSES, public_methods
from coevolve_lab.environments.bfcl.environment import BFCLEnvironment
from coevolve_lab.errors import ConfigError, EnvironmentFailure, PrerequisiteError
from coevolve_lab.records import Task
from tests.environments.bfcl.playing import play, solution_calls


def test_make_names_what_is_wrong() -> None:
    with pytest.raises(ConfigError, match="bfcl"):
        make("bcfl")
    with pytest.raises(ConfigError, match="max_calls"):
        make("bfcl", max_cals=2)
    with pytest.raises(ConfigError, match="GorillaFileSystem"):
        make("bfcl", classes=["Gorilla"])
    with pytest.raises(ConfigError, match="classes"):
        make("bfcl", classes=[])
    with pytest.raises(ConfigError, match="partial_credit"):
        make("bfcl", partial_credit=0.5)
    with pytest.raises(ConfigError, match="held_out"):
        make("bfcl").tasks("dev")


def test_a_missing_package_names_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(package.HOME_VARIABLE, str(tmp_path / "nothing"))
    with pytest.raises(PrerequisiteError, match="coevolve-lab install bfcl"):
        make("bfcl")


def test_installing_again_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = package.activate().parent.parent
    monkeypatch.setattr(package.sys, "executable", "/nonexistent")
    assert package.install(folder) == folder


def test_a_failed_installation_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(package, "REQUIREMENTS", ("./no-such-file.whl",))
    with pytest.raises(PrerequisiteError, match="pip could not install"):
        package.install(tmp_path / "bfcl")
    assert list(tmp_path.iterdir()) == []


def test_a_broken_start_state_is_an_environment_failure() -> None:
    environment = BFCLEnvironment()
    starts: list[dict[str, Any]] = [
        {},
        {"involved_classes": ["NoSuchAPI"]},
        {"involved_classes": ["GorillaFileSystem"], "initial_config": {"GorillaFileSystem": {"root": {}}}},
        {"involved_classes": ["TwitterAPI"], "initial_config": {"TwitterAPI": {"tweets": {"x": 1}}}},
        {"involved_classes": ["MathAPI", "TwitterAPI", "MathAPI"]},
    ]
    for start in starts:
        with pytest.raises(EnvironmentFailure, match="task bad"):
            environment.open(Task("bad", "bfcl", ("x",), start, (("ls()",),), origin="import"))


def test_start_states_that_binders_do_not_know_bind_nothing() -> None:
    """Official ones hold orders, tickets and messages of other shapes than ours."""
    environment = BFCLEnvironment()
    bound: Counter[str] = Counter()
    for task in environment.tasks("test"):
        if {"TradingBot", "TicketAPI", "MessageAPI"} & set(task.start["involved_classes"]):
            session = environment.open(task)
            bound.update(bool(environment.bind(session, tool, random.Random(0))) for tool in session.apis.methods)
    assert min(bound[True], bound[False]) > 100


def test_schemas_are_openai_style_and_name_exactly_the_methods() -> None:
    types = {"object", "number", "integer", "string", "boolean", "array"}
    for name in CLASSES:
        rows = tools.class_schemas(name)
        assert {row["function"]["name"] for row in rows} == set(public_methods(name))
        for row in rows:
            assert row["type"] == "function"
            parameters = row["function"]["parameters"]
            assert parameters["type"] == "object"
            assert set(parameters["required"]) <= set(parameters["properties"])
            for value in parameters["properties"].values():
                assert value["type"] in types
                assert value.get("items", {"type": "string"})["type"] in types


def test_excluded_functions_are_not_offered() -> None:
    excluding = [task for task in BFCLEnvironment().tasks("test") if task.start.get("excluded_function")]
    assert len(excluding) == 18
    for task in excluding:
        names = {tool["function"]["name"] for tool in tools.schemas(task.start)}
        assert not names & set(task.start["excluded_function"])


def test_start_states_to_explore() -> None:
    environment = BFCLEnvironment(
        classes=["TicketAPI", "MathAPI", "MessageAPI"], classes_per_start=2, explore_starts=30
    )
    tasks = environment.tasks("explore")
    assert tasks == BFCLEnvironment(
        classes=["TicketAPI", "MathAPI", "MessageAPI"], classes_per_start=2, explore_starts=30
    ).tasks("explore")
    assert len({task.id for task in tasks}) == 30
    assert {len(task.start["involved_classes"]) for task in tasks} == {2}
    session = environment.open(tasks[0])
    tool = environment.tool_names(tasks[0].start)[0]
    assert tool in {schema["function"]["name"] for schema in session.tools}
    assert session.score() == 0.0


@pytest.fixture(scope="module")
def held_out_tasks() -> list[Task]:
    return BFCLEnvironment().tasks("held_out")


def test_held_out_tasks_are_distinct_solvable_and_not_solved_by_nothing(held_out_tasks: list[Task]) -> None:
    environment = BFCLEnvironment()
    assert len(held_out_tasks) == 200
    assert len({task.id for task in held_out_tasks}) == 200
    assert len({(task.turns, task.solution) for task in held_out_tasks}) == 200
    for task in held_out_tasks:
        for _ in range(2):
            assert play(environment, task, solution_calls(task)).score() == 1.0
        for reply in ("", task.turns[0]):
            session = environment.open(task)
            session.step(reply)
            assert session.score() == 0.0
    assert held_out_tasks == BFCLEnvironment().tasks("held_out")
    assert held_out_tasks != BFCLEnvironment(seed=1).tasks("held_out")


def test_held_out_tasks_go_round_the_tools(held_out_tasks: list[Task]) -> None:
    firsts = Counter(solution_calls(task)[0][0].name for task in held_out_tasks)
    possible = set(BFCLEnvironment().tool_names(held_out_tasks[0].start))
    assert len(firsts) >= 0.9 * len(possible)
    assert max(firsts.values()) <= 3 * len(held_out_tasks) / len(firsts)


def test_held_out_tasks_share_no_start_and_no_query_with_exploration(held_out_tasks: list[Task]) -> None:
    environment = BFCLEnvironment()
    explored = environment.tasks("explore")
    assert not any(task.start == other.start for task in held_out_tasks for other in explored)
    assert {task.start["pool"] for task in held_out_tasks} == {"held_out"}
    assert {task.start["pool"] for task in explored} == {"train"}


@dataclasses.dataclass
class _Repeating:
    """A world with one start state, one tool and one wording: it has exactly one task."""

    environment: BFCLEnvironment
    name: str = "bfcl"

    def open(self, task: Task) -> Any:
        return self.environment.open(task)

    def start(self, pool: str, rng: random.Random) -> Any:
        return self.environment.start(pool, random.Random(0))

    def tool_names(self, start: Any) -> list[str]:
        return ["find_nearest_tire_shop"]

    def bind(self, session: Any, tool: str, rng: random.Random) -> str:
        return "find_nearest_tire_shop()"

    def phrase(self, call: str, rng: random.Random) -> str:
        return "find a tire shop"


def test_too_small_a_world_says_so() -> None:
    world = _Repeating(BFCLEnvironment(classes=["VehicleControlAPI"]))
    with pytest.raises(EnvironmentFailure, match="only 1 of 4 distinct"):
        held_out.make_tasks(world, 4, 1, random.Random(0))
