"""Agents and their training data, evolving together (CoEvolve, arXiv:2604.15840).

    from coevolve_lab import CoEvolve
    run = CoEvolve("configs/bfcl-tiny.yaml", run_dir="data/runs/first")
    run.round()

``CoEvolve`` is a run. All other names are views in JupyterLab: of one run, such as ``dashboard(run)``; of several,
``compare(run, other)``; of all in a folder, ``runs(folder)``; of an experiment, ``experiment_view(plan, folder)``,
whose plan is ``experiments.expand(experiments.load("table5"), "tiny")``. They load on first use, so that importing the
package costs nothing.

Tab completion shows none of these modules; ``from coevolve_lab import experiments`` brings one:

    environments    what is played in: ``make``, ``register_environment``
    signals         weaknesses of the policy: ``Detector``, ``register_signal``
    methods         what CoEvolve is compared with: ``METHODS``, ``find``
    experiments     tables and figures from many runs: ``load``, ``expand``, ``play``, ``write``
    figures         one function per figure: frames in, plotly out
    paper           what the paper published: ``table``, ``figure``, ``catalogue``
    config          every setting of a run and its default: ``Config``, ``load_config``
    errors          what goes wrong in a known way; all derive from ``CoEvolveError``
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coevolve_lab.loop import CoEvolve
    from coevolve_lab.widgets import (
        chat,
        compare,
        dashboard,
        experiment_view,
        runs,
        signal_browser,
        step_through,
        task_review,
        task_set_view,
        trajectory_browser,
        trajectory_view,
    )

__version__ = "0.1.0"
__all__ = [
    "CoEvolve",
    "__version__",
    "chat",
    "compare",
    "dashboard",
    "experiment_view",
    "runs",
    "signal_browser",
    "step_through",
    "task_review",
    "task_set_view",
    "trajectory_browser",
    "trajectory_view",
]

_HOMES = dict.fromkeys(__all__, "coevolve_lab.widgets") | {"CoEvolve": "coevolve_lab.loop"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
