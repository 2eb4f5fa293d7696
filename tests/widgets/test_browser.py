"""The dashboard in a real JupyterLab and Chromium: a button is clicked, the figure is seen to change."""

from __future__ import annotations

import shutil
from pathlib import Path

import nbformat
import pytest

from tests.widgets.lab import CHROMIUM, browser_lab, run_all, write_notebook

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
_FIRST = """
import tests.loop_world
from coevolve_lab import CoEvolve, dashboard, step_through
run = CoEvolve.open("own", progress=False)
"""


def test_clicks_change_what_the_browser_draws(finished_dir: Path, tmp_path: Path) -> None:
    shutil.copytree(finished_dir, tmp_path / "own")
    cells = [
        _FIRST,
        "dashboard(run)",
        "step_through(run)",
        "dashboard('nowhere')",
        "print('the notebook' + ' goes on')",
    ]
    write_notebook(tmp_path / "x.ipynb", cells)
    with browser_lab(tmp_path, COEVOLVE_CACHE=str(tmp_path / "cache"), OMP_NUM_THREADS="1") as lab:
        page = lab.open("x.ipynb")
        run_all(page)
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
        page.locator(".coevolve-stages button", has_text="group").first.click()
        page.locator(".coevolve-page .side").first.wait_for(timeout=60_000)
        assert "does not exist" in page.locator(".coevolve-error").first.inner_text()
        page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
        page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.context.model.dirty", timeout=60_000)
        saved = tmp_path / "x.ipynb"
        assert saved.stat().st_size < 6_000_000  # plotly's script at most once
        assert nbformat.read(saved, as_version=4).cells[1].outputs
