"""The ring with an LLM explorer, asked over real HTTP: what a round records and spends, who decides, and what a kill
costs. A fake endpoint plays the model; its replies follow from the requests alone."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

from coevolve_lab import CoEvolve
from coevolve_lab.assembly import EXPLORER
from coevolve_lab.errors import ConfigError
from coevolve_lab.evolution import UNEXECUTED
from coevolve_lab.evolution.llm.explorer import RECORDING
from tests.evolution.llm.fake_llm import FakeLlm, proposal, tools_of, user_of
from tests.evolution.toy_world import POOLS, ToyWorld
from tests.fake_endpoint import MODEL, Answer, FakeEndpoint, says, says_json
from tests.loop_world import assert_nothing_twice, new_run, rows, warm_cache

pytestmark = pytest.mark.usefixtures(warm_cache.__name__)
ROOT = Path(__file__).parents[1]
KEY = "sk-never-to-be-kept-4711"
STAGES = ("reflect", "explore", "abstract")
SMALL = {
    **{"initial_tasks": 8, "contexts_per_round": 4, "tasks_per_round": 4, "rollouts_per_context": 1},
    **{"steps_per_rollout": 4, "min_calls": 1, "max_calls": 1},
}


class ToyLlm(FakeLlm):
    """Explores the toy world: looks around first, and then acts on what it saw. It says back the key that it got.

    victim: a process that is killed while its request ``fatal`` (stage, how many of it) is on the way.
    """

    def __init__(self) -> None:
        super().__init__({"judge": self._whims})
        self.victim: int | None = None
        self.fatal: tuple[str, int] | None = None

    def __call__(self, request: dict[str, Any], number: int) -> Answer:
        answer = super().__call__(request, number)
        if self.fatal == (self.asked[-1], self.asked.count(self.asked[-1])) and self.victim is not None:
            os.kill(self.victim, signal.SIGKILL)
        return answer

    def _explore(self, request: dict[str, Any]) -> Answer:
        rng = random.Random("".join(message["content"] for message in request["messages"]))
        tools, names = tools_of(request), POOLS["train"]
        seen = any(" is " in message["content"] for message in request["messages"][2:])
        given = {"text": rng.choice(["red", "green"]), "amount": rng.randrange(1, 20)}
        given |= {name: rng.choice(names) for name in ("key", "source", "target", "counter")}
        calls = {
            "total": "total()",
            "show": "show(key={key!r})",
            "put": "put(key={key!r}, text={text!r})",
            "add": "add(counter={counter!r}, amount={amount})",
            "copy": "copy(source={source!r}, target={target!r})",
        }
        first = ["total"] if "total" in tools else ["show"]
        chosen = rng.choice([tool for tool in calls if tool in tools] if seen else first)
        return says(f"<think>My key is {KEY}.</think>It is {KEY}.\n```\n{calls[chosen].format(**given)}\n```")

    def _abstract(self, request: dict[str, Any]) -> Answer:
        """A task of each call that worked."""
        tasks = []
        for run, text in enumerate(re.findall(r"Run \d+:\n(.*?)</data>", user_of(request), re.DOTALL), 1):
            for step, call in re.findall(r"\[(\d+)\] action: (.*)\n    observation", text)[:3]:
                tasks.append(proposal(run, [int(step)], ToyWorld().phrase(call, random.Random(call))))
        return says_json({"tasks": tasks})

    def _whims(self, request: dict[str, Any]) -> Answer:
        """A judge of whims: its mind is made up by the letters of what it reads."""
        return says_json({"reason": f"{KEY} says so.", "success": random.Random(user_of(request)).random() < 0.6})


@pytest.fixture(scope="module")
def llm() -> ToyLlm:
    return ToyLlm()


@pytest.fixture(scope="module")
def fake(llm: ToyLlm) -> Iterator[FakeEndpoint]:
    with FakeEndpoint(llm) as serving, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOY_LLM_KEY", KEY)
        yield serving


def evolution(fake: FakeEndpoint, **changes: Any) -> dict[str, Any]:
    explorer = {
        **{"kind": "llm", "model": MODEL, "base_url": fake.url, "api_key_env": "TOY_LLM_KEY", "retries": 0},
        **{"price_prompt": 1000.0, "price_completion": 2000.0, **changes},
    }
    return {**SMALL, "explorer": explorer}


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory, fake: FakeEndpoint, warm_cache: Path) -> Iterator[CoEvolve]:
    """D_0 found by the LLM, one call after the other. Only looked at, and forked."""
    run = new_run(tmp_path_factory.mktemp("seeded") / "run", evolution=evolution(fake, connections=1))
    run.seed_tasks()
    yield run
    run.close()


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory, seeded: CoEvolve) -> Iterator[CoEvolve]:
    """A round of it, and a judge asked beside the check by execution."""
    run = forked(seeded, tmp_path_factory.mktemp("straight") / "run", judge="compare")
    run.rounds(1)
    yield run
    run.close()


def forked(seeded: CoEvolve, folder: Path, **evolution: Any) -> CoEvolve:
    return seeded.fork(0, folder, evolution=evolution)


def recorded(run: CoEvolve) -> list[dict[str, Any]]:
    """The lines of a run's recording."""
    return [json.loads(line) for line in (run.run_dir / EXPLORER / RECORDING).read_text().splitlines()]


def without_luck(tables: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Without what tells a replayed call from one that was made."""
    luck = {"attempts", "replayed"}
    calls = [{name: value for name, value in row.items() if name not in luck} for row in tables["model_calls"]]
    return {**tables, "model_calls": sorted(calls, key=lambda row: str(row["id"]))}


def test_a_round_of_an_llm_records_what_it_made_and_what_it_cost(straight: CoEvolve) -> None:
    tasks = straight.sql("select round, origin, explorer, count(*) as n from tasks group by all order by round").rows()
    assert tasks[0] == (0, "seed", f"llm:{MODEL}", 8)
    assert tasks[1][:3] == (1, "feedback", f"llm:{MODEL}")
    calls = straight.sql("select * from model_calls")
    assert calls["cost"].to_list() == pytest.approx([(100 * 1000 + 20 * 2000) / 1e6] * len(calls))
    assert set(calls["status"]) == {"ok"}
    assert set(calls["attempts"]) == {1}
    assert set(calls.filter(pl.col("round") == 1)["role"]) == {*STAGES, "judge"}
    costs = straight.sql("select stage, sum(calls) as calls, sum(tokens) as tokens from stage_costs group by stage")
    spent = {stage: (made, tokens) for stage, made, tokens in costs.rows()}
    made = Counter({"validate" if role == "judge" else role: 0 for role in calls["role"]})
    made.update("validate" if role == "judge" else role for role in calls["role"])
    assert {stage: spent[stage] for stage in made} == {stage: (n, 120 * n) for stage, n in made.items()}
    assert {stage for stage, (n, _) in spent.items() if n} == set(made)
    chain = straight.sql(
        "select t.id from tasks t join drafts d on d.id = t.draft_id join contexts c on c.id = d.context_id "
        "join signals s on s.id = c.signal_id join model_calls m on m.subject = c.id and m.role = 'reflect' "
        "where t.round = 1"
    )
    assert not chain.is_empty()
    assert_nothing_twice(straight)


def test_compare_asks_the_judge_and_execution_decides(straight: CoEvolve) -> None:
    both = straight.sql(
        "select v.outcome, v.reason, j.success, j.played from verdicts v join judgements j using (draft_id)"
    )
    verdicts = straight.sql("select * from verdicts where round = 1")
    assert len(both) == len(verdicts.filter(~pl.col("reason").is_in(UNEXECUTED))) > 0
    assert {(outcome, success) for outcome, _, success, _ in both.rows()} >= {("accepted", True), ("accepted", False)}
    assert set(both.filter(pl.col("outcome") == "accepted")["played"]) == {1.0}


def test_gate_lets_the_judge_decide(seeded: CoEvolve, tmp_path: Path) -> None:
    run = forked(seeded, tmp_path / "run", judge="gate")
    run.round()
    decided = run.sql(
        "select j.success, v.outcome, v.reason, v.detail = j.reason as said from judgements j join verdicts v "
        "using (draft_id)"
    )
    assert set(decided.rows()) == {
        (True, "accepted", "judged", True),
        (False, "retained", "judge_refused", True),
    }
    assert run.sql("select count(*) as n from verdicts where reason = 'solved' and round = 1")["n"][0] == 0


@pytest.mark.parametrize("judge", ["compare", "gate"])
def test_a_judge_needs_an_explorer_that_can_judge(tmp_path: Path, judge: str) -> None:
    run = new_run(tmp_path / "run", evolution={"judge": judge})
    with pytest.raises(ConfigError, match="'scripted' cannot"):
        run.seed_tasks()


def test_a_budget_ends_an_evolution_and_the_round_still_commits(
    seeded: CoEvolve, straight: CoEvolve, fake: FakeEndpoint, tmp_path: Path
) -> None:
    run = forked(seeded, tmp_path / "run", explorer={"evolution_tokens": 120 * 19}, rollouts_per_context=2)
    before = len(fake.requests)
    run.round()
    assert run.reader.committed_round == 1
    assert len(fake.requests) - before == 19
    found, whole = (len(r.tasks()) - len(seeded.tasks()) for r in (run, straight))
    assert found < whole
    statuses = Counter(run.sql("select status from model_calls where round = 1")["status"])
    assert statuses["ok"] == 19
    assert statuses["budget"] > 0
    run.round()  # the next evolution has a budget of its own
    assert Counter(run.sql("select status from model_calls where round = 2")["status"])["ok"] == 19


def test_a_budget_may_leave_d_0_small_but_not_empty(fake: FakeEndpoint, tmp_path: Path) -> None:
    run = new_run(tmp_path / "run", evolution=evolution(fake, evolution_tokens=120 * 36, connections=1))
    with pytest.warns(UserWarning, match=r"D_0 has \d of 8 tasks: the explorer's tokens is used up"):
        run.seed_tasks()
    assert run.reader.committed_round == 0
    assert 0 < len(run.tasks()) < 8


DEATHS = (("reflect", 2), ("explore", 9), ("abstract", 3), ("execute", 5), ("judge", 2))


@pytest.fixture(scope="module")
def killed(
    tmp_path_factory: pytest.TempPathFactory, seeded: CoEvolve, straight: CoEvolve, llm: ToyLlm, fake: FakeEndpoint
) -> dict[tuple[str, int], tuple[Path, list[dict[str, Any]]]]:
    """For each death the folder of its run and the requests that were made until then."""
    folder = tmp_path_factory.mktemp("killed")
    runs = [forked(seeded, folder / stage, judge="compare").run_dir for stage, _ in DEATHS]
    command = [sys.executable, "-m", "tests.llm_child", *map(str, runs)]
    asked: list[list[dict[str, Any]]] = []
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for word, number in (line.split() for line in child.stdout):
            if word == "began":
                llm.fatal, before = None, len(fake.requests)
                llm.asked.clear()
                llm.victim, llm.fatal = int(number), DEATHS[len(asked)]
            else:
                assert int(number) == -signal.SIGKILL
                asked.append(fake.requests[before:])
                llm.victim = llm.fatal = None
    assert child.wait(60) == 0
    return dict(zip(DEATHS, zip(runs, asked, strict=True), strict=True))


@pytest.mark.parametrize("death", DEATHS, ids=lambda death: death[0])
def test_a_killed_evolution_resumes_without_paying_twice(
    killed: dict[tuple[str, int], tuple[Path, list[dict[str, Any]]]],
    straight: CoEvolve,
    fake: FakeEndpoint,
    death: tuple[str, int],
) -> None:
    """In another process than the one that was killed: this one."""
    folder, asked = killed[death]
    run = CoEvolve.open(folder, progress=False)
    paid = recorded(run)
    assert run.reader.committed_round == 0
    assert len(paid) == len(asked) - 1  # all but the one that was on the way
    before = len(fake.requests)
    run.round()
    after, lines = fake.requests[before:], recorded(run)
    assert after[0] == asked[-1]
    assert lines[: len(paid)] == paid
    assert len({line["key"] for line in lines}) == len(lines) == len(paid) + len(after)
    sent = Counter(request["messages"][-1]["content"] for request in (*asked[:-1], *after))
    assert sent == Counter(line["messages"][-1]["content"] for line in lines)
    calls = run.sql("select replayed, attempts, count(*) as n from model_calls where round = 1 group by all")
    assert set(calls.rows()) == {(True, 0, len(paid)), (False, 1, len(after))}
    ours, theirs = without_luck(rows(run)), without_luck(rows(straight))
    for table in theirs:
        assert ours[table] == theirs[table], table
    run.close()


def test_the_key_is_in_no_file_of_the_run(straight: CoEvolve, fake: FakeEndpoint) -> None:
    assert {headers["authorization"] for headers in fake.headers} == {f"Bearer {KEY}"}
    straight.snapshot()
    files = [path for path in straight.run_dir.rglob("*") if path.is_file()]
    assert {".parquet", ".duckdb", ".json", ".jsonl", ".md"} <= {path.suffix for path in files}
    blotted = set()
    for path in files:
        text = readable(path)
        assert KEY.encode() not in path.read_bytes(), path
        assert KEY not in text, path
        blotted |= {path.suffix} if "[key]" in text else set()
    assert {".jsonl", ".parquet", ".duckdb"} <= blotted  # where the model said it


def readable(path: Path) -> str:
    """What a file holds, decompressed."""
    if path.suffix == ".parquet":
        return str(pl.read_parquet(path).to_dicts())
    if path.suffix == ".duckdb":
        with duckdb.connect(str(path), read_only=True) as database:
            names = [name for (name,) in database.execute("select table_name from duckdb_tables()").fetchall()]
            return str([database.execute(f'select * from "{name}"').fetchall() for name in names])
    return path.read_bytes().decode(errors="replace")


def test_an_interrupted_stage_is_paid_and_counted_once(seeded: CoEvolve, fake: FakeEndpoint, tmp_path: Path) -> None:
    run = forked(seeded, tmp_path / "run")
    explorer, before = run._ready().explorer, len(fake.requests)
    abstract = explorer.abstract

    def interrupted(*given: Any) -> Any:
        abstract(*given)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(explorer, "abstract", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run.round()
    run.round()
    paid = run.sql("select sum(cost) as cost from model_calls where round = 1")["cost"][0]
    assert paid == pytest.approx(0.14 * (len(fake.requests) - before))


@pytest.mark.parametrize("stage", ["explore", "abstract"])
def test_an_interrupted_d_0_is_paid_once(
    fake: FakeEndpoint, seeded: CoEvolve, tmp_path: Path, warm_cache: Path, stage: str
) -> None:
    run = new_run(tmp_path / "run", evolution=evolution(fake, connections=1))
    explorer, before = run._ready().explorer, len(fake.requests)
    whole = getattr(explorer, stage)

    def interrupted(*given: Any) -> Any:
        whole(*given)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(explorer, stage, interrupted)
        with pytest.raises(KeyboardInterrupt):
            run.seed_tasks()
    run.seed_tasks()
    once = seeded.sql("select count(*) as n from model_calls where round = 0")["n"][0]
    assert len(fake.requests) - before == once
    assert run.sql("select count(*) as n from contexts").item() == seeded.sql("select count(*) from contexts").item()
