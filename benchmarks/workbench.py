"""What using the workbench feels like: a real JupyterLab in a real Chromium, while a run goes on in its own kernel.

    python benchmarks/workbench.py [RUN_DIR]

Prints seconds and bytes: a cell's delay beside a busy run (goal: at most 0.2 s more than beside none), from a click to
its picture, and the size of a notebook saved with a dashboard (goal: under 6 MB). RUN_DIR: a big run, for the times of
opening and refreshing views on it (goal of a refresh: 0.3 s). Needs the dev extra and a Chromium.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.widgets.lab import browser_lab, run_all, write_notebook  # noqa: E402

CELLS = 30  # whose delay is measured
FIRST = """
import tests.loop_world
from coevolve_lab import CoEvolve, dashboard, step_through, trajectory_browser
run = CoEvolve(dict(tests.loop_world.CONFIG, rounds=200), "run", seed=2)
run.rounds(1)
"""
# What plotly has drawn of the dashboard's KL curve, and the page that step_through shows.
KL_POINTS = """() => {
  const plot = document.querySelector('.js-plotly-plot');
  const line = plot && plot.data && plot.data.find(trace => trace.name === 'KL');
  return line ? line.x.length : -1;
}"""


def show(label: str, seconds: float) -> None:
    print(f"{seconds:8.3f} s  {label}", flush=True)


def cell_delay(client: Any) -> float:
    """Median time from sending a trivial cell to the kernel's being idle again."""
    times = []
    for _ in range(CELLS):
        started = time.perf_counter()
        client.execute_interactive("1 + 1", timeout=60, output_hook=lambda message: None)
        times.append(time.perf_counter() - started)
        time.sleep(0.1)
    return statistics.median(times)


def cells_beside_a_busy_run(folder: Path) -> None:
    """The notebook's kernel: idle, then with a run in the background, then with its live dashboard as well."""
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(cwd=str(folder), env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:

        def run(code: str) -> None:
            reply = client.execute_interactive(code, timeout=300, output_hook=lambda message: None)
            assert reply["content"]["status"] == "ok", reply["content"]

        run(FIRST)
        idle = cell_delay(client)
        show("a cell, nothing else running", idle)
        started = time.perf_counter()
        run("run.start(rounds=200, imports=['tests.loop_world'])")
        show("run.start()", time.perf_counter() - started)
        run("import time\nwhile run.status().step == 0 and run.status().committed == 1: time.sleep(.05)")
        busy = cell_delay(client)
        show(f"a cell beside a busy run ({1000 * (busy - idle):+.0f} ms)", busy)
        run("board = dashboard(run)")
        live = cell_delay(client)
        show(f"the same with its live dashboard ({1000 * (live - idle):+.0f} ms)", live)
        run("board.close()\nrun.stop(discard=True)")
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def clicks(folder: Path) -> None:
    """From a click in the browser to what it draws."""
    cells = ["import tests.loop_world\nfrom coevolve_lab import *\nrun = CoEvolve.open('run')", "dashboard(run)"]
    write_notebook(folder / "board.ipynb", cells)
    write_notebook(folder / "steps.ipynb", [cells[0], "step_through(run)"])
    with browser_lab(folder) as lab:
        page = lab.open("board.ipynb")
        started = time.perf_counter()
        run_all(page)
        page.wait_for_function(f"() => ({KL_POINTS})() > 0", timeout=120_000)
        show("run all cells of a notebook -> dashboard drawn (imports included)", time.perf_counter() - started)
        page.wait_for_timeout(2000)
        title = "() => Array.from(document.querySelectorAll('.annotation-text'), e => e.textContent).join('|')"
        before = page.evaluate(title)
        timed_click(page, ".coevolve-measure button >> nth=1", f"() => ({title})() !== {before!r}", "shares toggled")
        page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
        page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.context.model.dirty", timeout=60_000)
        print(f"{(folder / 'board.ipynb').stat().st_size / 1e6:8.2f} MB the notebook, saved with its dashboard")
        page.close()
        page = lab.open("steps.ipynb")
        run_all(page)
        page.locator(".coevolve-page .card, .coevolve-page h4").first.wait_for(timeout=120_000)
        for stage, drawn in (("trajectory", ".coevolve-page .card"), ("group", ".coevolve-page .side")):
            selector = f".coevolve-stages button:text-is('{stage}')"
            timed_click(page, selector, f"() => !!document.querySelector('{drawn}')", f"step_through: {stage} shown")


def timed_click(page: Any, selector: str, drawn: str, label: str) -> None:
    started = time.perf_counter()
    page.locator(selector).first.click()
    page.wait_for_function(drawn, timeout=60_000, polling=10)
    show(f"click -> {label}", time.perf_counter() - started)


def views_of(run_dir: Path) -> None:
    """Opening and refreshing views of a big run, without a browser."""
    from coevolve_lab import dashboard, signal_browser, step_through, trajectory_browser
    from coevolve_lab.store import RunReader

    reader = RunReader(run_dir)
    steps, rounds = reader.sql("select (select count(*) from steps), (select count(*) from updates)").row(0)
    print(f"\n{run_dir}: {steps:,} steps, {rounds:,} updates")
    board: Any = dashboard(run_dir, every=0)
    timed("dashboard, refreshed when nothing changed", board.refresh)

    def read_everything() -> None:
        board._progress = None
        board.refresh()

    timed("dashboard, every table read again", read_everything)
    for view in (signal_browser, step_through, trajectory_browser):
        timed(f"{view.__name__} opened", lambda view=view: view(reader))  # type: ignore[misc]


def timed(label: str, action: Callable[[], Any], repeat: int = 3) -> None:
    times = []
    for _ in range(repeat):
        started = time.perf_counter()
        action()
        times.append(time.perf_counter() - started)
    show(f"{label} (best of {repeat})", min(times))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run_dir", nargs="?", type=Path)
    given = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["COEVOLVE_CACHE"] = str(folder / "cache")
        cells_beside_a_busy_run(folder)
        clicks(folder)
    if given.run_dir:
        views_of(given.run_dir)


if __name__ == "__main__":
    main()
