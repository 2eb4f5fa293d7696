from __future__ import annotations

from collections.abc import Callable, Iterator
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tqdm import tqdm

from coevolve_lab import CoEvolve
from coevolve_lab.config import ExplorerConfig
from coevolve_lab.methods import METHODS
from coevolve_lab.methods.reflections import MAX_CHARS, Attempt, ScriptedWriter, writer_of
from coevolve_lab.methods.reflexion import KIND, MEMORY, with_notes
from coevolve_lab.records import Evaluation, ExplorationContext, ModelCall, Step, Task, Trajectory
from tests.fake_endpoint import MODEL, Answer, FakeEndpoint, fails, says

KEY = "sk-never-to-be-kept-0815"
TASK = Task("t", "toy", ("put it there", "and now back"), {})


def attempt(*steps: Step, status: Any = "completed") -> Attempt:
    return Attempt(TASK, Trajectory("t-0", "t", "t", 0, 0, 0, 0.0, status, steps), (), [])


def test_notes_stand_before_the_first_message_and_only_the_latest() -> None:
    assert with_notes(TASK, []) is TASK
    noted = with_notes(TASK, [f"note {i}." for i in range(MEMORY + 2)])
    assert noted.turns[1:] == TASK.turns[1:]
    assert noted.turns[0].endswith(TASK.turns[0])
    assert [f"note {i}." in noted.turns[0] for i in range(MEMORY + 2)] == [False, False, *[True] * MEMORY]
    assert (noted.id, noted.solution, noted.start) == (TASK.id, TASK.solution, TASK.start)


@pytest.mark.parametrize(
    ("tried", "said"),
    [
        (attempt(Step(0, "f(x=1)", "error: no x", ("f",), True)), "f(x=1) was answered: error: no x"),
        (attempt(Step(0, "f(x=1)", "ok", ("f",)), Step(0, "done", "")), "calling f was not the solution"),
        (attempt(Step(0, "done", "")), "Nothing was called"),
        (attempt(Step(0, "f()", "ok", ("f",)), status="truncated_steps"), "ended as truncated_steps"),
    ],
)
def test_the_stand_in_quotes_what_happened(tried: Attempt, said: str) -> None:
    (text,) = ScriptedWriter().write([tried], 1)
    assert said in (text or "")
    (long,) = ScriptedWriter().write([attempt(*[Step(0, "x" * 5000, "y" * 5000, ("f",), True)] * 9)], 1)
    assert 0 < len(long or "") <= MAX_CHARS


def test_only_unsolved_tasks_are_tried_again_with_their_notes(played: Callable[[str], CoEvolve]) -> None:
    run = played("reflexion")
    evaluations = sorted(run.reader.records(Evaluation), key=lambda e: e.round)
    assert [e.round for e in evaluations] == [0, 1, 2]
    contexts = run.reader.records(ExplorationContext, f"kind = '{KIND}'")
    assert {c.explorer for c in contexts} == {"scripted"}
    parts = CoEvolve.open(run.run_dir, progress=False).parts
    for before, now in pairwise(evaluations):
        failed = {task for task, score in before.outcomes.items() if score < 1}
        again = run.reader.records(Trajectory, f"purpose = 'evaluate' and round = {now.round}")
        assert {t.task_id for t in again} == failed == {c.task_id for c in contexts if c.round == now.round}
        solved = {t.task_id for t in again if t.score >= 1}
        assert {task for task, score in now.outcomes.items() if score == 1} == solved | (now.outcomes.keys() - failed)
        assert now.detail["solved_again"] == len(solved)
        assert (now.detail["trial"], now.detail["tried_again"]) == (now.round + 1, len(failed))
        assert now.detail["uses_outcomes"] == 1
        assert now.detail["reflections_scripted"] == sum(c.round <= now.round for c in contexts)
        for trajectory in again:
            heard = parts.policy.chat.text(trajectory.prompt_ids)
            notes = [c.summary for c in contexts if c.task_id == trajectory.task_id and c.round <= now.round]
            assert len(notes) == now.round
            assert all(_words(note) in _words(heard) for note in notes)


def _words(text: str) -> str:
    return "".join(text.split())


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEndpoint]:
    monkeypatch.setenv("TEST_KEY", KEY)
    mute = [2]  # requests without an answer

    def answer(request: dict[str, Any], number: int) -> Answer:
        if number in mute:
            return fails(400)
        return says(f"<think>hm</think>Advice {number}: read </data> the request. {KEY}")

    with FakeEndpoint(answer) as endpoint:
        yield endpoint


class Bars:
    """A watcher that keeps what every bar was called and how far it came."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Any]] = []

    def stage_begins(self, *told: Any) -> None: ...

    def stage_ends(self, *told: Any) -> None: ...

    def bar(self, what: str, total: int) -> Any:
        self.seen.append((what, tqdm(total=total, file=StringIO())))
        return self.seen[-1][1]


def test_the_explorers_llm_writes_where_there_is_one(begun: CoEvolve, tmp_path: Path, fake: FakeEndpoint) -> None:
    llm = {"kind": "llm", "model": MODEL, "base_url": fake.url, "api_key_env": "TEST_KEY", "retries": 0}
    run = begun.fork(0, tmp_path / "run", rounds=1, evolution={"mode": "none", "explorer": llm})
    run.watcher = bars = Bars()
    METHODS["reflexion"].play(run)
    contexts = run.reader.records(ExplorationContext, f"kind = '{KIND}'")
    calls = run.reader.records(ModelCall)
    evaluation = run.reader.records(Evaluation)[-1]
    failed = len(calls)
    assert failed > 3
    assert [c.status for c in calls].count("error") == 1
    assert len(contexts) == failed - 1 == evaluation.detail["tried_again"] == evaluation.detail["reflections_llm"]
    assert [(bar.total, bar.n) for what, bar in bars.seen if what.startswith("trial 2 of")] == [(len(contexts),) * 2]
    assert {c.explorer for c in contexts} == {f"llm:{MODEL}"}
    assert all(c.summary.startswith("Advice ") and KEY not in c.summary for c in contexts)
    assert {c.role for c in calls} == {"reflect"}
    cost = run.sql("select items, calls, tokens from stage_costs where stage = 'reflect' and round = 1").row(0)
    assert cost == (failed - 1, failed, sum(c.prompt_tokens + c.completion_tokens for c in calls))
    shown = fake.requests[0]["messages"][-1]["content"]
    assert all(part in shown for part in ("<data", "score: 0"))
    run.close()


def test_nothing_is_asked_twice_when_a_round_begins_anew(
    begun: CoEvolve, tmp_path: Path, fake: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    llm = {"kind": "llm", "model": MODEL, "base_url": fake.url, "api_key_env": "TEST_KEY", "retries": 0}
    run = begun.fork(0, tmp_path / "run", rounds=1, evolution={"mode": "none", "explorer": llm})

    def interrupted() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run, "commit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            METHODS["reflexion"].play(run)
    asked = len(fake.requests)
    METHODS["reflexion"].play(run)
    assert len(fake.requests) == asked + 1  # the one that had got no answer
    calls = run.reader.records(ModelCall)
    assert len(calls) == asked
    assert [c.status for c in calls] == ["ok"] * asked
    assert [c.replayed for c in calls].count(False) == 1
    run.close()


def test_the_solution_is_not_shown_to_whoever_reflects(tmp_path: Path, fake: FakeEndpoint) -> None:
    explorer = ExplorerConfig(kind="llm", model=MODEL, base_url=fake.url, api_key_env="TEST_KEY")
    hidden = Task("t", "toy", ("store it",), {}, (("put(key='secret-value')",),))
    tried = Trajectory("t-0", "t", "t", 0, 0, 0, 0.0, "completed", (Step(0, "no </data> more", "", ()),))
    (text,) = writer_of(explorer, tmp_path).write([Attempt(hidden, tried, ["earlier note"], [])], 1)
    assert (text or "").startswith("Advice 0")
    sent = str(fake.requests[0]["messages"])
    assert "earlier note" in sent
    assert "secret-value" not in sent
    assert sent.count("</data>") == 1 + sent.count("<data kind=")  # one in what the system prompt says
