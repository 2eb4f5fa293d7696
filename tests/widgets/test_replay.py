"""Trajectories as people read them, and hostile text as text."""

from __future__ import annotations

from pathlib import Path

from coevolve_lab import CoEvolve, trajectory_view
from coevolve_lab.config import Config
from coevolve_lab.records import Step, Task, Trajectory
from coevolve_lab.store import RunReader, RunWriter
from coevolve_lab.widgets.replay import TrajectoryView, token_decoder

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


def test_an_unknown_trajectory_is_an_error_text(finished: CoEvolve) -> None:
    view = trajectory_view(finished, "nope")
    assert "no trajectory" in view.error
    assert "no trajectory" in view._repr_mimebundle_()["text/html"]
