"""Trajectories as people read them, and hostile text as text."""

from __future__ import annotations

from html import unescape
from pathlib import Path

from coevolve_lab import CoEvolve, trajectory_view
from coevolve_lab.config import Config, load_config
from coevolve_lab.records import Step, Task, Trajectory
from coevolve_lab.store import RunReader, RunWriter
from coevolve_lab.widgets.replay import TrajectoryView, token_decoder
from tests.loop_world import CONFIG, LoopToy

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>"


def hostile_run(folder: Path) -> RunReader:
    """One trajectory of a task, with markup in every text that a model or an environment may write."""
    steps = (
        Step(0, EVIL, EVIL, (), True, (5, 6), (-0.1, -3.0)),
        Step(1, "look()", "y" * 9000, ("look",), False, (7,), (-0.5,)),
    )
    with RunWriter.create(folder, Config()) as writer:
        task = Task("task<b>", "toy", (EVIL, "and then?"), {}, (("look()",), ("look()",)))
        row = Trajectory(EVIL, task.id, "g<i>", 0, 0, 1, 0.0, "parse_error", steps, detail=EVIL)
        writer.append([task, row])
        writer.commit(0)
    return RunReader(folder)


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    view = trajectory_view(hostile_run(tmp_path / "run"), EVIL)
    assert isinstance(view, TrajectoryView), view.error
    view.tokens.value = True
    for html in (view.page.value, view._repr_mimebundle_()["text/html"]):
        assert "<script" not in html
        assert "<img" not in html
        assert "&lt;script&gt;alert(1)" in html
        assert "task&lt;b&gt;" in html
    assert "parse_error" in view.page.value
    assert "no call in it" in view.page.value
    assert "5,000 more characters" in view.page.value


def test_turns_results_and_failures_are_marked(tmp_path: Path) -> None:
    view = trajectory_view(hostile_run(tmp_path / "run"), EVIL)
    page = view.page.value
    assert page.count("<b>User</b>") == 2
    assert page.index("and then?") < page.index("look()")
    assert page.count("card failed") == 1


def test_tokens_come_on_demand_as_text(finished: CoEvolve) -> None:
    row = finished.sql("select id from trajectories where purpose = 'train' and n_tokens > 3 order by id limit 1")
    view = trajectory_view(finished, row["id"][0])
    assert 'class="token"' not in view.page.value
    view.tokens.value = True
    steps = finished.sql(f"select * from steps where trajectory_id = '{row['id'][0]}' order by index")
    assert view.page.value.count('class="token"') == steps["n_tokens"].sum()
    assert f"{steps['logprobs'][0][0]:.3f}" in view.page.value
    decode = token_decoder(finished.reader)
    assert decode is not None
    assert steps["action"][0].startswith("".join(decode(token) for token in steps["token_ids"][0][:2]))


def test_tasks_that_are_not_stored_are_said(finished: CoEvolve) -> None:
    row = finished.sql("select id from trajectories where purpose = 'evaluate' order by id limit 1")
    view = trajectory_view(finished, row["id"][0])
    assert "its query is not stored" in view.page.value


def test_the_reference_solution_comes_on_demand_with_what_was_asked(finished: CoEvolve) -> None:
    (held_out,) = finished.sql("select * from trajectories where purpose = 'evaluate' order by id limit 1").to_dicts()
    (trained,) = finished.sql("select * from trajectories where purpose = 'train' order by id limit 1").to_dicts()
    asked = next(task for task in LoopToy().tasks("test") if task.id == held_out["task_id"])
    (stored,) = finished.reader.records(Task, f"id = '{trained['task_id']}'")
    view = trajectory_view(finished, held_out["id"])
    assert "Reference solution" not in view.page.value
    view.solution.value = True
    for row, task in ((held_out, asked), (trained, stored)):
        view.show(row["id"])
        assert not view.error
        assert "its query is not stored" not in view.page.value
        for html in (view.page.value, view.plain()[1]):
            conversation, solution = unescape(html).split("Reference solution")
            assert task.turns[0] in conversation
            assert all(call in solution for calls in task.solution for call in calls)


def test_a_task_that_nobody_knows_does_not_hide_its_trajectory(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run", load_config(CONFIG)) as writer:
        steps = (Step(0, "show(key='a')", "1", ("show",), False, (1,), (-0.1,)),)
        writer.append([Trajectory("t1", "elsewhere", "g", 0, 0, 1, 0.0, "completed", steps)])
        writer.commit(0)
    view = trajectory_view(tmp_path / "run", "t1")
    view.solution.value = True
    assert "no task" in view.error
    assert "elsewhere" in view.error
    assert "show(key=" in view.page.value


def test_an_unknown_trajectory_is_an_error_text(finished: CoEvolve) -> None:
    view = trajectory_view(finished, "nope")
    assert "no trajectory" in view.error
    assert "no trajectory" in view._repr_mimebundle_()["text/html"]
