"""The page and the files beside it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from coevolve_lab.errors import ConfigError
from coevolve_lab.evolution import minilm
from coevolve_lab.experiments.plan import Plan
from coevolve_lab.experiments.writing import write


def with_outputs(plan: Plan, *outputs: str) -> Plan:
    return replace(plan, experiment=plan.experiment.model_copy(update={"outputs": outputs}))


@pytest.fixture(scope="module")
def written(plan: Plan, runs: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write(plan, runs, tmp_path_factory.mktemp("results"), images=False, embedding="words")


def test_the_page_comes_first_and_links_what_is_there(written: list[Path]) -> None:
    page, *others = written
    assert (page.name, page.parent.name) == ("results.md", "small-smoke")
    assert {path.name for path in others} == {
        "scores.csv", "scores.html", "scores_validation.csv", "gains.csv", "gains.html",
    }  # fmt: skip
    text = page.read_text()
    assert all(path.is_file() and f"]({path.name})" in text for path in others)
    assert ".png" not in text  # none was asked for


def test_the_page_says_what_was_run_and_what_is_missing(written: list[Path], plan: Plan) -> None:
    text = written[0].read_text()
    assert text.startswith("# A small question (small)")
    assert "Seeds: 0, 1, 2. Runs: 8 of 9 finished." in text
    assert "**Unfinished: these numbers will change.**" in text
    assert "uniform, here (seed 2)" in text
    assert "Invented, to see the page." in text
    assert all(cell.key in text for cell in plan.cells)
    assert str(written[0].parent.parent) not in text  # nobody's folders


def test_tables_are_whole_as_csv(written: list[Path]) -> None:
    frame = pl.read_csv(written[0].parent / "gains.csv")
    assert frame.filter(column="here").height == 3
    assert frame["gain"].is_between(-1, 1).all()


def test_it_is_the_same_when_written_again(written: list[Path], plan: Plan, runs: Path) -> None:
    before = {path.name: path.read_bytes() for path in written if path.suffix != ".html"}
    again = write(plan, runs, written[0].parent.parent, images=False, embedding="words")
    assert {path.name: path.read_bytes() for path in again if path.suffix != ".html"} == before


def test_a_plan_without_runs_gives_a_page_that_says_so(plan: Plan, tmp_path: Path) -> None:
    (page,) = write(plan, tmp_path / "runs", tmp_path / "out", images=False)
    assert "Runs: 0 of 9 finished." in page.read_text()


def test_what_cannot_be_made_here_is_named_with_its_remedy(
    plan: Plan, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(minilm.HOME_VARIABLE, str(tmp_path / "empty"))
    page, *others = write(with_outputs(plan, "similarity", "scores"), runs, tmp_path, images=False)
    assert "No “similarity”" in page.read_text()
    assert minilm.INSTALL_COMMAND in page.read_text()
    assert "scores.csv" in {path.name for path in others}


def test_an_output_that_does_not_exist_is_refused_before_anything_is_written(
    plan: Plan, runs: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="no output 'score'; did you mean 'scores'"):
        write(with_outputs(plan, "score"), runs, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.browser
def test_figures_are_drawn_for_print(plan: Plan, runs: Path, tmp_path: Path) -> None:
    page, *others = write(with_outputs(plan, "scores"), runs, tmp_path, pdf=True)
    assert {path.suffix for path in others} == {".csv", ".html", ".svg", ".png", ".pdf"}
    assert "![Scores](scores.png)" in page.read_text()
