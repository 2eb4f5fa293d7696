"""A model behind an interface plays real BFCL cases: here a fake endpoint that knows the solutions, or misbehaves."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coevolve_lab import environments
from coevolve_lab.cli import main
from coevolve_lab.config import EndpointConfig
from coevolve_lab.endpoint import Cassette, Endpoint, Limits, ToolCall
from coevolve_lab.environments.bfcl.calls import parse_action, parse_call
from coevolve_lab.errors import ConfigError, ExplorerError
from coevolve_lab.evaluation.api_model import ROLE, as_action, evaluate_model
from coevolve_lab.evaluation.api_run import api_config, evaluate_api
from coevolve_lab.records import Task
from coevolve_lab.store import RunReader
from tests import fake_endpoint as fake

Answering = Callable[[dict[str, Any], int], fake.Answer]


@pytest.fixture(scope="module")
def cases() -> list[Task]:
    environment = environments.make("bfcl")
    defects = environment.known_defects()
    return [task for task in environment.tasks("test") if task.id not in defects][:10]


def oracle(tasks: list[Task]) -> Answering:
    """Plays the reference solution of whichever task is asked about, a turn's calls in one reply."""
    by_query = {task.turns[0]: task for task in tasks}

    def answer(request: dict[str, Any], number: int) -> fake.Answer:
        said = [m for m in request["messages"] if m["role"] == "user"]
        last = request["messages"][-1]
        turn = by_query[said[0]["content"]].solution[len(said) - 1]
        if last["role"] == "tool" or not turn:
            return fake.says("Done.")
        names = {t["function"]["name"]: list(t["function"]["parameters"]["properties"]) for t in request["tools"]}
        asked = []
        for text in turn:
            call = parse_call(text)
            given = {**dict(zip(names[call.name], call.args, strict=False)), **call.kwargs}
            asked.append((call.name, json.dumps(given)))
        return fake.calls(*asked)

    return answer


def endpoint(url: str, folder: Path, **limits: Any) -> Endpoint:
    config = EndpointConfig(model=fake.MODEL, base_url=url)
    return Endpoint({ROLE: config}, Limits(**{"retries": 0, **limits}), Cassette(folder / "cassette.jsonl"))


def evaluate(tasks: list[Task], asked: Endpoint) -> Any:
    return evaluate_model(environments.make("bfcl"), tasks, asked, split="test", name="e", max_steps=30)


def test_the_solutions_score_one_and_are_asked_for_once(cases: list[Task], tmp_path: Path) -> None:
    with fake.FakeEndpoint(oracle(cases)) as served:
        evaluation, trajectories = evaluate(cases, endpoint(served.url, tmp_path))
        count = len(served.requests)
        assert served.most_at_once > 1
        again, _ = evaluate(cases, endpoint(served.url, tmp_path))
    assert evaluation.score == 1.0
    assert [t.task_id for t in trajectories] == [task.id for task in cases]
    assert all(t.status == "completed" and t.purpose == "evaluate" for t in trajectories)
    assert {name for t in trajectories for name in t.tools} >= {parse_call(c).name for c in cases[0].solution[0]}
    assert len(served.requests) == count
    assert again.outcomes == evaluation.outcomes


def test_talk_alone_scores_nothing(cases: list[Task], tmp_path: Path) -> None:
    with fake.FakeEndpoint(lambda request, number: fake.says("I have done it all.")) as served:
        evaluation, _ = evaluate(cases, endpoint(served.url, tmp_path))
    assert evaluation.score == 0.0


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (fake.calls(("cd", '{"folder": ')), "truncated_steps"),
        (fake.calls(("no_such_tool", "{}")), "truncated_steps"),
        (fake.calls(("cd", "null"), ("ls", "[]")), "truncated_steps"),
        (fake.stops_at_length("and then I"), "truncated_tokens"),
        (fake.refuses(), "completed"),
        (fake.NO_CHOICES, "completed"),
    ],
)
def test_a_model_that_misbehaves_fails_its_episodes_only(
    cases: list[Task], tmp_path: Path, answer: fake.Answer, status: str
) -> None:
    with fake.FakeEndpoint(lambda request, number: answer) as served:
        evaluation, trajectories = evaluate(cases[:2], endpoint(served.url, tmp_path))
    assert evaluation.score == 0.0
    assert {t.status for t in trajectories} == {status}


def test_what_was_not_played_is_no_failure_of_the_model(cases: list[Task], tmp_path: Path) -> None:
    right = oracle(cases)

    def broken(request: dict[str, Any], number: int) -> fake.Answer:
        return fake.fails(500) if number >= 6 else right(request, number)

    with fake.FakeEndpoint(broken) as served, pytest.raises(ExplorerError, match="could not be played to their end"):
        evaluate(cases, endpoint(served.url, tmp_path))
    answered = 6
    with fake.FakeEndpoint(right) as served:
        evaluation, _ = evaluate(cases, endpoint(served.url, tmp_path))
        missing = len(served.requests)
    with fake.FakeEndpoint(right) as served:
        evaluate(cases, endpoint(served.url, tmp_path / "from the start"))
        assert missing == len(served.requests) - answered
    assert evaluation.score == 1.0


def test_a_spent_budget_stops_it(cases: list[Task], tmp_path: Path) -> None:
    with fake.FakeEndpoint(oracle(cases)) as served, pytest.raises(ExplorerError, match="budget"):
        evaluate(cases, endpoint(served.url, tmp_path, tokens=500, connections=1))


def test_a_function_call_reads_as_the_action_it_means() -> None:
    (call,) = parse_action(as_action(ToolCall("1", "cd", '{"folder": "a \\"b\\""}')))
    assert (call.name, call.kwargs) == ("cd", {"folder": 'a "b"'})
    (call,) = parse_action(as_action(ToolCall("1", "ls", "")))
    assert call.kwargs == {}


def test_the_results_are_a_run_folder(tmp_path: Path) -> None:
    options = {"held_out_tasks": 8, "classes": ["MathAPI"]}
    config = api_config("openai:fake-1", "bfcl", "held_out", environment={"options": options})
    asked = EndpointConfig(model=fake.MODEL, price_prompt=2.0, price_completion=10.0)
    seen: list[tuple[int, int]] = []
    with fake.FakeEndpoint(lambda request, number: fake.says("No.")) as served:
        asked = asked.model_copy(update={"base_url": served.url})
        done = evaluate_api(config, tmp_path / "run", asked, progress=lambda *now: seen.append(now))
        count = len(served.requests)
        assert evaluate_api(config, tmp_path / "run", asked) == done
        assert len(served.requests) == count
    assert (done.score, done.tasks) == (0.0, 8)
    assert seen[-1] == (8, 8)
    reader = RunReader(tmp_path / "run")
    (row,) = reader.sql("select count(*) as n, sum(cost) as cost from model_calls").to_dicts()
    assert row["n"] == count
    assert row["cost"] == pytest.approx(count * (100 * 2.0 + 20 * 10.0) / 1e6)


def test_the_command_says_what_came_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    held_out = ["--set", "environment.options={held_out_tasks: 5, classes: [MathAPI]}", "--split", "held_out"]
    with fake.FakeEndpoint(lambda request, number: fake.says("No.")) as served:
        command = ["evaluate", "--model", "openai:house/fake-1", "--base-url", served.url, *held_out]
        assert main(command) == 0
    out = capsys.readouterr().out
    assert "held_out: 0.000 ± 0.000 on 5 tasks in data/evaluations/bfcl-fake-1" in out
    assert "prompt_tokens" in out
    assert served.requests[0]["model"] == "house/fake-1"
    assert main(["evaluate"]) == 2
    assert "--model openai:NAME" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="openai:NAME"):
        api_config("qwen3-max", "bfcl", "test")


def test_a_larger_budget_goes_on_where_a_smaller_one_ended(cases: list[Task], tmp_path: Path) -> None:
    with fake.FakeEndpoint(oracle(cases)) as served:
        with pytest.raises(ExplorerError, match="with a larger budget"):
            evaluate(cases, endpoint(served.url, tmp_path, tokens=500, connections=1))
        before = len(served.requests)
        evaluation, _ = evaluate(cases, endpoint(served.url, tmp_path, tokens=10**9))
        whole = len(served.requests)
        evaluate(cases, endpoint(served.url, tmp_path / "anew"))
        assert len(served.requests) - whole == whole
    assert before > 0
    assert evaluation.score == 1.0


def test_what_was_typed_wrong_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["evaluate", "--model", "openai:fake-1", "--split", "heldout"]) == 2
    assert not (tmp_path / "data").exists()
    assert main(["evaluate", "some-run", "--set", "seed=1", "--max-cost", "3"]) == 2
    assert "--set" in capsys.readouterr().err
