"""From a weakness to its task and back, with the links that are missing said plainly."""

from __future__ import annotations

from pathlib import Path

import pytest

from coevolve_lab import CoEvolve
from coevolve_lab.config import Config, load_config
from coevolve_lab.records import ExplorationContext, Signal, Task, TaskDraft, Verdict
from coevolve_lab.store import RunReader, RunWriter
from coevolve_lab.widgets import chain, pages
from coevolve_lab.widgets.stepper import STAGES, StepThrough, step_through
from tests.loop_world import CONFIG

_CHAIN = """
select t.id as task, s.id as signal, c.id as context from tasks t join drafts d on d.id = t.draft_id
join contexts c on c.id = d.context_id join signals s on s.id = c.signal_id order by t.id limit 1
"""


def member(name: str, score: float, *actions: str) -> dict[str, object]:
    return {"id": name, "score": score, "steps": [{"action": action} for action in actions]}


def test_parting_is_where_the_nearest_of_the_other_outcome_turns_off() -> None:
    lost = member("lost", 0.0, "a", "b", "x")
    far, near = member("far", 1.0, "z"), member("near", 1.0, "a", "b", "c")
    assert chain.parting([far, near, lost], "lost") == (near, 2)
    assert chain.parting([far, near, lost], "far") == (lost, 0)
    assert chain.parting([lost, member("too", 0.5, "a")], "lost") == (None, 0)
    same = member("same", 1.0, "a", "b", "x")
    assert chain.parting([same, lost], "lost") == (same, 3)


def test_every_stage_of_a_signal_that_led_somewhere(finished: CoEvolve) -> None:
    task, signal, context = finished.sql(_CHAIN).row(0)
    view = step_through(finished, signal)
    assert isinstance(view, StepThrough), view.error
    pages = {}
    for stage in STAGES:
        view.show_stage(stage)
        assert not view.error
        pages[stage] = view.page.value
    assert len(set(pages.values())) == len(STAGES)
    assert signal in pages["signal"]
    trajectory = finished.sql(f"select trajectory_id as t from signals where id = '{signal}'")["t"][0]
    assert trajectory in pages["trajectory"]
    assert "solved the task" in pages["group"]
    assert context in pages["context"]
    assert "rollouts in the real environment" in pages["exploration"]
    assert "accepted" in pages["drafts"]
    assert "Since then" in pages["task"]
    assert task in view.task.options or task in pages["drafts"]


def test_from_a_task_back_to_what_caused_it(finished: CoEvolve) -> None:
    task, signal, context = finished.sql(_CHAIN).row(0)
    view = step_through(finished, task_id=task)
    assert view.context.value == context
    assert signal in view.page.value
    view.back.click()
    assert view.stages.value == "signal"
    assert signal in view.page.value


def test_a_boundary_group_shows_where_success_and_failure_part(finished: CoEvolve) -> None:
    signal = finished.sql("select id from signals where kind = 'boundary' order by id limit 1")["id"][0]
    view = step_through(finished, signal)
    view.show_stage("group")
    assert "part at <b>step" in view.page.value
    assert 'class="card failed part"' in view.page.value or 'class="card good part"' in view.page.value


def test_missing_links_are_said(finished: CoEvolve) -> None:
    seed = finished.sql("select id from tasks where origin = 'seed' order by id limit 1")["id"][0]
    view = step_through(finished, task_id=seed)
    assert "No signal caused it" in view.page.value
    view.show_stage("signal")
    assert "unguided exploration" in view.page.value
    idle = finished.sql(
        "select id from signals where id not in (select signal_id from contexts where signal_id is not null) limit 1"
    )
    view.show_signal(idle["id"][0])
    view.show_stage("context")
    assert "nobody reflected on this signal" in view.page.value
    view.show_task("no-such-task")
    assert "not in the task set" in view.page.value
    view.show_signal("no-such-signal")
    assert "no signal no-such-signal" in view.page.value


def test_visits_count_solved_shares(finished: CoEvolve) -> None:
    task = finished.sql(
        "select task_id as t from trajectories where purpose = 'train' group by 1 order by count(*) desc"
    )
    rows = chain.visits(finished.reader, task["t"][0])
    assert len(rows) > 1
    assert [row["step"] for row in rows] == sorted(row["step"] for row in rows)
    assert all(row["members"] == finished.config.rollout.group_size for row in rows)
    assert all(0 <= row["solved"] <= 1 for row in rows)


@pytest.mark.parametrize("bad", ["'; drop table tasks; --", "x' or '1'='1", "<script>alert(1)</script>"])
def test_hostile_ids_are_data(finished: CoEvolve, bad: str) -> None:
    view = step_through(finished, bad)
    assert "<script>" not in view.page.value
    assert "no signal" in view.page.value
    view.show_task(bad)
    assert "not in the task set" in view.page.value
    assert "<script>" not in view.page.value


def test_tokens_come_on_demand_in_the_trajectory_stage(finished: CoEvolve) -> None:
    row = finished.sql(
        "select s.id, t.n_tokens from signals s join trajectories t on t.id = s.trajectory_id order by s.id limit 1"
    ).row(0)
    view = step_through(finished, row[0])
    assert view.tokens.layout.display == "none"
    view.show_stage("trajectory")
    assert view.tokens.layout.display is None
    assert 'class="token"' not in view.page.value
    view.tokens.value = True
    assert view.page.value.count('class="token"') == row[1]
    assert not view.error


def test_a_drafts_solution_is_executed_again(finished: CoEvolve) -> None:
    task, signal, _ = finished.sql(_CHAIN).row(0)
    view = step_through(finished, signal)
    view.show_stage("drafts")
    assert view.replay.layout.display is None
    assert view.beside.value.count("card") == 0
    view.replay.click()
    draft = finished.sql(f"select draft_id as d from tasks where id = '{view.task.value}'")["d"][0]
    assert view.draft.value == draft, "the draft that became the shown task is offered first"
    assert draft in view.beside.value
    assert "score 1.00" in view.beside.value
    assert view.beside.value.count("rejected, as it should be") == 2
    view.show_stage("group")
    assert "executed again" not in view.beside.value
    view.show_task(task)
    view.replay.click()
    assert task in view.beside.value
    assert "score 1.00" in view.beside.value
    assert not view.error


def test_a_rejected_drafts_replay_shows_the_call_that_failed(tmp_path: Path) -> None:
    evil = "<img src=x onerror=alert(1)>"
    start = {"classes": ["values"], "values": {"ant": "red 1"}, "counters": {}}
    calls = ("erase(key='ant')", f"erase(key='{evil}')")
    with RunWriter.create(tmp_path / "run", load_config(CONFIG)) as writer:
        writer.append([
            ExplorationContext("c", "boundary", 0, start, signal_id="s"),
            Signal("s", "boundary", "t", "task", "g", 0, 1, 0.0),
            TaskDraft("d", "c", "r", "loop-toy", (evil,), start, (calls,), 0, "feedback"),
            Verdict("v", "d", "retained", "failed_call", 0, score=1.0),
        ])  # fmt: skip
        writer.commit(0)
    view = step_through(tmp_path / "run", "s")
    assert isinstance(view, StepThrough), view.error
    view.show_stage("drafts")
    view.replay.click()
    assert not view.error
    assert view.beside.value.count('"card failed') == 1
    assert view.beside.value.count('"card good') == 1
    assert "<img" not in view.beside.value
    assert "&lt;img src=x" in view.beside.value


def test_an_environment_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    """As in a kernel that has not registered the run's own environment."""
    config = load_config(CONFIG, environment={"name": "gone-world"})
    with RunWriter.create(tmp_path / "run", config) as writer:
        writer.append([Task("task", "gone-world", ("erase ant",), {}, (("erase(key='ant')",),))])
        writer.commit(0)
    view = step_through(tmp_path / "run", task_id="task")
    assert isinstance(view, StepThrough), view.error
    view.replay.click()
    assert "no environment is called" in view.beside.value
    assert "erase ant" in view.page.value, "the rest stays readable"


def test_from_a_task_to_how_the_policy_fared(finished: CoEvolve) -> None:
    task = finished.sql(
        "select task_id as t from trajectories where purpose = 'train' group by 1 order by count(*) desc, 1"
    )["t"][0]
    view = step_through(finished, task_id=task)
    names = [name for _, name in view.visit.options if name]
    assert len(names) == 2 * len(chain.visits(finished.reader, task))
    view.visit.value = names[0]
    assert names[0] in view.beside.value
    view.visit.value = ""
    assert names[0] not in view.beside.value


def test_from_a_signal_to_the_task_that_it_is_about(finished: CoEvolve) -> None:
    signal, task = finished.sql("select id, task_id from signals order by id limit 1").row(0)
    view = step_through(finished, signal)
    view.about.click()
    assert view.stages.value == "task"
    assert view.task.value == task
    assert task in view.page.value


def test_an_outcome_of_any_name_is_shown(tmp_path: Path) -> None:
    """A held draft waits for a person; a later version may know outcomes that this one does not."""
    context = ExplorationContext("c", "forgetting", 1, {})
    with RunWriter.create(tmp_path / "run", Config()) as writer:
        for outcome in ("held", "accepted", "discarded", "never-heard-of"):
            writer.append([
                TaskDraft(f"d-{outcome}", "c", "r", "toy", ("do it",), {}, (("look()",),), 1, "feedback"),
                Verdict(f"v-{outcome}", f"d-{outcome}", outcome, "why", 1),  # type: ignore[arg-type]
            ])  # fmt: skip
        writer.append([context])
        writer.commit(0)
    page = pages.drafts_page(RunReader(tmp_path / "run"), {"id": "c", "round": 1})
    for outcome in ("held", "accepted", "discarded", "never-heard-of"):
        assert f">{outcome}</span>" in page
    assert page.count('"card failed"') == page.count('"card good"') == 1
    assert "waits for a review" in page
