"""The views in a real JupyterLab and Chromium: buttons are clicked, figures and tables are seen to change."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from coevolve_lab.store import RunReader
from coevolve_lab.store.mailbox import posted_reviews
from tests.loop_world import new_run
from tests.widgets.lab import CHROMIUM, Lab, browser_lab, run_all, write_notebook

playwright = pytest.importorskip("playwright", reason="no playwright here (pip install -e '.[dev]')")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(not CHROMIUM, reason="no Chromium here (apt-get install chromium, or set BROWSER_PATH)"),
]
# What plotly has drawn: for every trace its name, place in the legend and points.
_DRAWN = """() => {
  const plot = document.querySelector('.js-plotly-plot');
  const found = (plot && plot.data || []).map(t => [t.name, [t.showlegend, Array.from(t.x), Array.from(t.y)]]);
  return Object.fromEntries(found);
}"""
_POINTS = """() => {
  const plot = document.querySelector('.js-plotly-plot');
  const line = plot && plot.data && plot.data.find(trace => trace.name === 'KL');
  return line ? line.x.length : -1;
}"""
# Brightness of the first axis label, and of the notebook behind it, from 0 to 255.
_INK = """() => ['.js-plotly-plot .xtick text', '.jp-Notebook'].map(selector => {
  const style = getComputedStyle(document.querySelector(selector));
  const color = selector === '.jp-Notebook' ? style.backgroundColor : style.fill;
  return color.match(/\\d+/g).slice(0, 3).map(Number).reduce((a, b) => a + b) / 3;
})"""
_FIRST = """
import tests.loop_world
from coevolve_lab import *
from coevolve_lab import CoEvolve
run = CoEvolve.open("own", progress=False)
"""


@pytest.fixture(scope="module")
def folder(finished_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``own`` and ``other``: a finished run, twice; ``held``: one whose first tasks wait for a person."""
    made = tmp_path_factory.mktemp("lab")
    for name in ("own", "other"):
        shutil.copytree(finished_dir, made / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COEVOLVE_CACHE", str(tmp_path_factory.getbasetemp() / "warm-starts"))
        with new_run(made / "held", evolution={"review": "manual"}) as run:
            run.seed_tasks()
    return made


@pytest.fixture(scope="module")
def lab(folder: Path) -> Iterator[Lab]:
    with browser_lab(folder, COEVOLVE_CACHE=str(folder / "cache"), OMP_NUM_THREADS="1") as served:
        yield served


def opened(lab: Lab, folder: Path, name: str, *cells: str, dark: bool = False) -> Any:
    """A page with a notebook of these cells, all of them run."""
    write_notebook(folder / f"{name}.ipynb", [_FIRST, *cells])
    page = lab.open(f"{name}.ipynb", dark=dark)
    run_all(page)
    return page


def test_clicks_change_what_the_browser_draws(lab: Lab, folder: Path) -> None:
    cells = ["dashboard(run)", "step_through(run)", "dashboard('nowhere')", "print('the notebook' + ' goes on')"]
    page = opened(lab, folder, "x", *cells)
    page.wait_for_function(f"() => ({_POINTS})() > 0", timeout=90_000)
    page.get_by_text("the notebook goes on", exact=True).first.wait_for(timeout=60_000)
    before = page.evaluate(_DRAWN)
    page.locator(".coevolve-step").first.click()
    page.wait_for_function(f"() => ({_POINTS})() === {len(before['KL'][1]) + 1}", timeout=90_000)
    after = page.evaluate(_DRAWN)
    assert after.keys() == before.keys()
    assert after["KL"][1] == [*before["KL"][1], 7]
    for name, (legend, x, _) in before.items():  # what did not change is still there
        assert after[name][0] == legend, name
        assert after[name][1][: len(x)] == x or name in ("before training", "stages", "drafted"), name
    assert page.locator(".js-plotly-plot .main-svg").first.bounding_box()["width"] > 900
    page.locator(".coevolve-fork").first.click()
    page.locator(".coevolve-make-fork").first.click()
    page.get_by_text("own-fork1").last.wait_for(timeout=30_000)
    assert RunReader(folder / "own-fork1").committed_round == 3
    page.locator(".coevolve-stages button", has_text="group").first.click()
    page.locator(".coevolve-page .side").first.wait_for(timeout=60_000)
    assert "does not exist" in page.locator(".coevolve-error").first.inner_text()
    page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
    page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.context.model.dirty", timeout=60_000)
    saved = folder / "x.ipynb"
    assert saved.stat().st_size < 6_000_000  # plotly's script at most once
    assert nbformat.read(saved, as_version=4).cells[1].outputs
    page.close()


def test_a_bar_that_is_clicked_filters_the_list(lab: Lab, folder: Path) -> None:
    page = opened(lab, folder, "trajectories", "trajectory_browser(run)")
    bar = page.locator(".js-plotly-plot .bars .point").first
    bar.wait_for(timeout=90_000)
    where = page.locator(".coevolve-view").get_by_text(" of ").first
    before = where.inner_text()
    page.wait_for_timeout(500)
    page.evaluate("document.querySelector('.js-plotly-plot').scrollIntoView()")
    box = page.locator(".js-plotly-plot .nsewdrag").first.bounding_box()
    drawn = bar.bounding_box()
    page.mouse.click(
        drawn["x"] + drawn["width"] / 2, min(box["y"] + box["height"] - 4, drawn["y"] + drawn["height"] / 2)
    )
    page.wait_for_function("before => !document.body.innerText.includes(before)", arg=before, timeout=30_000)
    page.close()


def test_a_decision_is_left_for_the_run(lab: Lab, folder: Path) -> None:
    page = opened(lab, folder, "review", "task_review('held')")
    page.locator(".coevolve-accept").first.wait_for(timeout=90_000)
    page.locator(".coevolve-draft h4").first.wait_for(timeout=30_000)
    assert posted_reviews(folder / "held") == {}
    page.locator(".coevolve-accept").first.click()
    page.get_by_text("1 decided").first.wait_for(timeout=30_000)
    assert [review.decision for review in posted_reviews(folder / "held").values()] == ["accept"]
    page.close()


def test_a_stored_policy_acts_and_two_runs_are_compared_in_the_dark(lab: Lab, folder: Path) -> None:
    page = opened(lab, folder, "chat", "compare('own', 'other')", "chat(run)", dark=True)
    page.locator(".js-plotly-plot .legendtext").first.wait_for(timeout=90_000)
    ink, paper = page.evaluate(_INK)
    assert paper < 60 < 150 < ink  # text that can be read on Lab's dark ground
    page.locator(".coevolve-surprise").first.click()
    page.locator(".coevolve-play").first.click()
    page.locator(".coevolve-conversation .card").nth(1).wait_for(timeout=120_000)
    page.close()
