"""Pictures of the widgets for the README: a real run in a real JupyterLab, in a headless Chromium.

    python docs/screenshots.py data/runs/first [--out docs/images] [--dark]
    python docs/screenshots.py data/runs/first --only compare --other data/runs/second
    python docs/screenshots.py data/runs/reviewed --only task_review

The run is only looked at. Needs the dev extra (playwright) and a Chromium.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.widgets.lab import browser_lab, run_all, write_notebook  # noqa: E402

# name -> (how to make the view, a selector that appears once it is drawn)
VIEWS = {
    "dashboard": ("dashboard(run)", ".js-plotly-plot .legendtext"),
    "step_through_group": ("view = step_through(run)\nview.show_stage('group')\nview", ".coevolve-page .side"),
    "step_through_task": ("view = step_through(run)\nview.show_stage('task')\nview", ".coevolve-page h4"),
    "trajectory": (
        "chosen = \"purpose = 'train' and n_steps > 2 order by score desc, id limit 1\"\n"
        "one = run.sql('select id from trajectories where ' + chosen)['id'][0]\n"
        "view = trajectory_view(run, one)\nview.tokens.value = True\nview",
        ".coevolve-trajectory .token",
    ),
    "signal_browser": ("signal_browser(run, page_size=12)", ".coevolve-table table"),
    "task_set": ("task_set_view(run, page_size=12)", ".coevolve-table table"),
    "trajectories": ("trajectory_browser(run, page_size=10)", ".js-plotly-plot .bars .point"),
    "replay": (
        "view = step_through(run)\nview.show_stage('drafts')\nview.show_replay()\nview",
        ".coevolve-page .card",
    ),
    "chat": ("view = chat(run)\nview.play()\nview.wait(120)\nview", ".coevolve-conversation .card"),
    "task_review": ("task_review(run)", ".coevolve-draft h4"),
    "compare": ("compare(run, OTHER)", ".js-plotly-plot .legendtext"),
    "runs": ("runs(run.run_dir.parent)", ".js-plotly-plot .legendtext"),
}

APART = {"compare", "task_review"}  # need a second run, or one whose drafts wait


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    parser.add_argument("--dark", action="store_true", help="in JupyterLab's dark theme")
    parser.add_argument("--only", nargs="*", default=[v for v in VIEWS if v not in APART], choices=list(VIEWS))
    parser.add_argument("--other", type=Path, default=Path(), help="the run that compare puts beside it")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first = (
            "from coevolve_lab import *\nfrom coevolve_lab import CoEvolve\n"
            f"run, OTHER = CoEvolve.open({str(given.run_dir.resolve())!r}), {str(given.other.resolve())!r}"
        )
        for view in given.only:
            write_notebook(folder / f"{view}.ipynb", [first, VIEWS[view][0]])
        with browser_lab(folder) as lab:
            for view in given.only:
                page = lab.open(f"{view}.ipynb", height=2000, dark=given.dark)
                run_all(page)
                shown = page.locator(".jp-OutputArea-output .coevolve-view").first
                page.locator(VIEWS[view][1]).first.wait_for(timeout=60_000)
                page.wait_for_timeout(1500)  # plotly's fonts and transitions
                path = given.out / f"{view}{'_dark' if given.dark else ''}.png"
                shown.screenshot(path=path)
                print(path)
                page.close()


if __name__ == "__main__":
    main()
