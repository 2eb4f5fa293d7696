"""From a weakness to its task and back, with the links that are missing said plainly."""

from __future__ import annotations

import pytest

from coevolve_lab import CoEvolve
from coevolve_lab.widgets import chain
from coevolve_lab.widgets.stepper import STAGES, StepThrough, step_through

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
