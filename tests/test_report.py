"""Tables and figures of a run folder."""

from __future__ import annotations

from pathlib import Path

import plotly.graph_objects as go
import pytest

from coevolve_lab import records as rows
from coevolve_lab.config import load_config
from coevolve_lab.demo import round_line
from coevolve_lab.report import evaluation_tasks, evaluations_table, rounds_table, run_figures, write_figures
from coevolve_lab.store import RunReader, RunWriter
from tests import loop_world


def update(step: int, round: int, reward: float, failed: int, solved: int) -> rows.Update:
    zeros = dict.fromkeys(("loss", "kl", "clip_fraction", "entropy", "logprob_gap", "gradient_norm", "seconds"), 0.0)
    return rows.Update(
        step=step,
        round=round,
        policy_version=step,
        reward=reward,
        learning_rate=1e-4,
        groups=4,
        groups_all_failed=failed,
        groups_all_solved=solved,
        groups_dropped=0,
        trajectories=16,
        action_tokens=100,
        trained_tokens=200,
        **zeros,
    )


def evaluation(step: int, round: int, outcomes: dict[str, float], split: str = "test") -> rows.Evaluation:
    score = sum(outcomes.values()) / len(outcomes)
    return rows.Evaluation(f"e{split}{step}", split, step, round, step, score, 0.1, len(outcomes), outcomes, 1.0)


def task(name: str, round: int) -> rows.Task:
    origin: rows.Origin = "feedback" if round else "seed"
    return rows.Task(name, "loop-toy", ("q",), {}, (("show(key='a')",),), round=round, origin=origin)


def signal(kind: str, index: int) -> rows.Signal:
    return rows.Signal(f"{kind}{index}", kind, "t", "k", "g", 1, 1, 0.0)


@pytest.fixture
def reader(tmp_path: Path) -> RunReader:
    """Two committed rounds: D_0 of one task, then two training steps and one accepted task of three drafts."""
    held_out = [t.id for t in loop_world.LoopToy().tasks("test")]
    with RunWriter.create(tmp_path / "run", load_config(loop_world.CONFIG | {"environment": ENVIRONMENT})) as writer:
        writer.append(
            [task("a", 0), rows.StageCost(0, "assemble", 5.0), evaluation(0, 0, dict.fromkeys(held_out, 0.0))]
        )
        writer.append([evaluation(0, 0, {"x": 1.0}, split="explore")])
        writer.commit(0)
        writer.append([update(1, 1, 0.25, 1, 1), update(2, 1, 0.75, 1, 0), task("b", 1)])
        writer.append([signal("rare", 1), signal("boundary", 1), signal("boundary", 2)])
        outcomes: list[rows.Outcome] = ["accepted", "discarded", "discarded"]
        writer.append(
            [rows.Verdict(f"v{i}", f"d{i}", what, "why", 1, similarity=i / 10) for i, what in enumerate(outcomes)]
        )
        writer.append([rows.StageCost(1, "train", 3.0), rows.StageCost(1, "explore", 1.0)])
        writer.append([rows.StageCost(1, "evaluate", 96.0)])
        writer.append([evaluation(2, 1, dict.fromkeys(held_out, 0.5))])
        writer.commit(1)
    return RunReader(tmp_path / "run")


ENVIRONMENT = loop_world.CONFIG["environment"] | {"evaluation_split": "test"}


def test_a_row_per_round_with_counts_of_that_round_only(reader: RunReader) -> None:
    first, second = rounds_table(reader).to_dicts()
    assert first["round"] == 0
    assert (first["steps"], first["reward"], first["score"], first["signals"]) == (0, None, 0.0, "")
    assert (first["accepted"], first["tasks"], first["flat"]) == (0, 1, None)
    assert (second["steps"], second["reward"], second["score"]) == (2, 0.5, 0.5)
    assert second["signals"] == "boundary 2, rare 1"
    assert (second["accepted"], second["retained"], second["discarded"], second["tasks"]) == (1, 0, 2, 2)
    assert second["flat"] == pytest.approx(3 / 8)
    assert second["seconds"] == 100.0


def test_held_drafts_have_a_column_and_each_draft_counts_by_its_last_verdict(reader: RunReader) -> None:
    before = rounds_table(reader).row(1, named=True)
    assert "1 accepted, 0 retained" in round_line(before, 2, "test")
    with RunWriter.open(reader.run_dir) as writer:
        # "v1.10" is later than "v1.2", although not in the order of the alphabet
        writer.append([rows.Verdict("v1.2", "d2", "accepted", "ok", 1), rows.Verdict("v1.3", "d3", "held", "risk", 1)])
        writer.commit(1)
        writer.append([rows.Verdict("v1.10", "d2", "held", "manual", 1)])
        writer.commit(1)
        row = rounds_table(reader).row(1, named=True)
    assert [row[name] for name in ("accepted", "held", "retained", "discarded")] == [1, 2, 0, 1]
    assert "drafts 1 accepted, 2 held, 0 retained, 1 discarded" in round_line(row, 2, "test")


def test_evaluations_of_every_split(reader: RunReader) -> None:
    columns = evaluations_table(reader).select("round", "step", "split", "task_set").rows()
    assert columns == [(0, 0, "explore", 1), (0, 0, "test", 1), (1, 2, "test", 2)]


def test_a_new_run_has_empty_tables_and_figures(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run", load_config(loop_world.CONFIG)):
        reader = RunReader(tmp_path / "run")
        assert rounds_table(reader).is_empty()
        assert all("no data yet" in str(figure.to_dict()) for figure in run_figures(reader).values())


def test_every_figure_is_filled(reader: RunReader) -> None:
    made = run_figures(reader, evaluation_tasks(reader))
    assert "solve_rates" in made
    for name, figure in made.items():
        assert isinstance(figure, go.Figure), name
        assert figure.data, name
    assert "split “test”" in made["score_per_step"].layout.title.text


def test_costs_count_the_stages_of_rounds_and_not_preparation_or_measurement(reader: RunReader) -> None:
    title = run_figures(reader)["cost_share"].layout.title.text
    assert "25.0% of 4 s" in title


def test_what_cannot_be_made_is_said_and_the_rest_written(
    reader: RunReader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROWSER_PATH", str(tmp_path / "no-browser"))
    written, missing = write_figures(reader, tmp_path / "figures")
    assert {path.suffix for path in written} == {".html"}
    assert all(path.is_file() for path in written)
    assert len(missing) == 1
    assert "Chromium" in missing[0]


@pytest.mark.browser
def test_with_a_browser_there_are_images(reader: RunReader, tmp_path: Path) -> None:
    written, missing = write_figures(reader, tmp_path / "figures")
    assert not missing
    assert {path.suffix for path in written} == {".html", ".png"}
    assert all(path.stat().st_size > 1000 for path in written)
