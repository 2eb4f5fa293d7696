"""The mini world that is installed: its form, and that its checks tell right from wrong exactly as the package does."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from coevolve_lab.environments.appworld.package import AppWorldPackage, child_environment
from coevolve_lab.environments.appworld.scoring import Scorer
from coevolve_lab.environments.appworld.workers import EpisodeState, WorkerPool
from coevolve_lab.evaluation import sgc, tgc

pytestmark = pytest.mark.appworld

SPLITS = {"train": 7, "dev": 2, "test_normal": 4, "test_challenge": 3}  # scenarios


def ids(package: AppWorldPackage, split: str) -> list[str]:
    return (package.mini_root / "data" / "datasets" / f"{split}.txt").read_text().split()


def read(package: AppWorldPackage, task: str, name: str) -> Any:
    return json.loads((package.mini_root / "data" / "tasks" / task / name).read_text())


def oracle(package: AppWorldPackage, task: str) -> str:
    code = (package.mini_root / "data" / "tasks" / task / "ground_truth" / "solution.py").read_text()
    return f"{code}\nsolution(apis, None)"


@contextmanager
def played(pool: WorkerPool, task: str, *blocks: str) -> Iterator[EpisodeState]:
    episode = pool.open(task)
    try:
        for block in blocks:
            done = episode.execute(block, 60)
            assert not done.failed, done.output
        yield episode.finish()
    finally:
        episode.close()


def test_splits_are_whole_scenarios_given_by_different_people(appworld: AppWorldPackage) -> None:
    people: dict[str, set[str]] = {"train": set(), "dev": set(), "test_normal": set(), "test_challenge": set()}
    seen: set[str] = set()
    for split, scenarios in SPLITS.items():
        counts = Counter(task.rsplit("_", 1)[0] for task in ids(appworld, split))
        assert len(counts) == scenarios
        assert set(counts.values()) == {3}
        assert not seen & set(counts)
        seen |= set(counts)
        for scenario in counts:
            givers = [read(appworld, f"{scenario}_{n}", "specs.json")["supervisor"]["email"] for n in (1, 2, 3)]
            assert len(set(givers)) == 3
            people[split] |= set(givers)
    assert not (people["train"] | people["dev"]) & (people["test_normal"] | people["test_challenge"])


def test_tasks_of_a_scenario_have_different_outcomes_that_their_words_do_not_tell(appworld: AppWorldPackage) -> None:
    apps: set[str] = set()
    for split in SPLITS:
        outcomes: dict[str, set[str]] = {}
        for task in ids(appworld, split):
            answer = read(appworld, task, "ground_truth/answer.json")
            outcome = json.dumps([read(appworld, task, "ground_truth/private_data.json"), answer])
            outcomes.setdefault(task.rsplit("_", 1)[0], set()).add(outcome)
            assert (
                answer is None or str(answer).lower() not in read(appworld, task, "specs.json")["instruction"].lower()
            )
            apps |= set(read(appworld, task, "ground_truth/required_apps.json"))
        assert all(len(found) == 3 for found in outcomes.values())
    assert apps == {"file_system", "phone", "simple_note", "spotify", "todoist", "venmo"}


def test_every_check_fails_when_nothing_is_done(appworld: AppWorldPackage) -> None:
    """The package's generators mark requirements so; ``generate.py`` found them by running the checks."""
    for split in SPLITS:
        for task in ids(appworld, split):
            labels = Counter(one["label"] for one in read(appworld, task, "ground_truth/test_data.json"))
            assert labels["no_op_fail"] >= 1


def test_scores_are_those_of_appworld_evaluate(
    appworld: AppWorldPackage, pool: WorkerPool, scorer: Scorer, tmp_path: Path
) -> None:
    """Oracles, nothing done, and one task of each scenario left undone: TGC and SGC on the dev split."""
    tasks = ids(appworld, "dev")
    outcomes: dict[str, dict[str, bool]] = {"oracle": {}, "nothing": {}, "sabotage": {}}
    outputs = tmp_path / "experiments" / "outputs"
    (tmp_path / "data").symlink_to(appworld.mini_root / "data")
    for task in tasks:
        for name, blocks in (("oracle", [oracle(appworld, task)]), ("nothing", [])):
            chosen = [name, "sabotage"] if (name == "nothing") == task.endswith("_2") else [name]
            with played(pool, task, *blocks) as state:
                success = scorer.score(task, state).success
                for experiment in chosen:
                    outcomes[experiment][task] = success
                    shutil.copytree(state.folder, outputs / experiment / "tasks" / task / "dbs")
    script = Path(__file__).with_name("package_evaluate.py")
    done = subprocess.run(
        [str(appworld.python), "-E", "-s", str(script), str(tmp_path), "dev", *outcomes],
        env=child_environment(tmp_path, tmp_path / "cache"),
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    official = json.loads(done.stdout)
    for name, ours in outcomes.items():
        assert ours == {task: report["success"] for task, report in official[name]["individual"].items()}
        theirs = official[name]["aggregate"]
        assert tgc(ours) == pytest.approx(theirs["task_goal_completion"], abs=0.05)
        assert sgc(ours) == pytest.approx(theirs["scenario_goal_completion"], abs=0.05)
    assert [tgc(outcomes["oracle"]), sgc(outcomes["oracle"])] == [100, 100]
    assert [tgc(outcomes["nothing"]), sgc(outcomes["nothing"])] == [0, 0]
    assert [tgc(outcomes["sabotage"]), sgc(outcomes["sabotage"])] == [pytest.approx(200 / 3), 0]


def test_a_right_outcome_with_a_stray_change_fails(appworld: AppWorldPackage, pool: WorkerPool, scorer: Scorer) -> None:
    stray = "apis.simple_note.create_note(title='stray', content='', access_token=login(apis, 'simple_note'))"
    for task in ("mini01_1", "mini02_1"):  # one that changes databases and one that asks for an answer
        with played(pool, task, oracle(appworld, task), stray) as state:
            report = scorer.score(task, state)
        assert not report.success
        assert any(requirement.startswith("nothing") for requirement in report.failed)


@pytest.mark.parametrize(
    ("task", "right", "wrong"),
    [
        ("mini05_1", "        found += rows", "        return rows[:5]"),  # the first page only, at its usual length
        ("mini07_2", ", is_completed=False", ""),  # finished tasks too
        ("mini08_1", "if wanted else", "if True else"),  # everybody's requests
        ("mini10_1", "not followed &", "not set() &"),  # everybody's songs
        ("mini16_1", "date_today(apis)[:8] + '01|00:00:00'", "'1500-01-01|00:00:00'"),  # of any time
    ],
)
def test_a_solution_that_misses_one_condition_fails(
    appworld: AppWorldPackage, pool: WorkerPool, scorer: Scorer, task: str, right: str, wrong: str
) -> None:
    code = oracle(appworld, task)
    assert code.count(right) == 1
    with played(pool, task, code.replace(right, wrong)) as state:
        assert not scorer.score(task, state).success


def test_agents_find_their_way_through_the_documentation(appworld: AppWorldPackage, pool: WorkerPool) -> None:
    look = """
for app in apis.api_docs.show_app_descriptions():
    print(app["name"], len(apis.api_docs.show_api_descriptions(app_name=app["name"])))
print(apis.api_docs.show_api_doc(app_name="venmo", api_name="login")["parameters"][0]["name"])
print(apis.api_docs.search_api_docs(query="like a song")[0]["app_name"])
"""
    episode = pool.open("mini01_1")
    try:
        lines = episode.execute(look, 60).output.split("\n")
    finally:
        episode.close()
    found = dict(line.split() for line in lines if line.count(" ") == 1)
    assert {"spotify", "venmo", "todoist", "file_system", "simple_note", "phone", "supervisor"} <= set(found)
    assert all(int(count) > 3 for count in found.values())
    assert "username" in lines
