"""Live views of a run for JupyterLab: compositions of ipywidgets over figures and SQL queries.

>>> from coevolve_lab import dashboard, step_through
>>> dashboard(run)

``run`` is a CoEvolve, a RunReader or a run folder everywhere. Views read through SQL, a page at a time; they show their
errors instead of raising them, and a plain table where no widgets run.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from coevolve_lab.errors import PrerequisiteError

if TYPE_CHECKING:
    from coevolve_lab.widgets.browsers import signal_browser, task_set_view
    from coevolve_lab.widgets.comparison import compare
    from coevolve_lab.widgets.conversation import chat
    from coevolve_lab.widgets.experiment import experiment_view
    from coevolve_lab.widgets.live import dashboard
    from coevolve_lab.widgets.overlay import runs
    from coevolve_lab.widgets.replay import trajectory_view
    from coevolve_lab.widgets.review import task_review
    from coevolve_lab.widgets.stepper import step_through
    from coevolve_lab.widgets.trajectories import trajectory_browser

_HOMES = {
    "chat": "conversation",
    "compare": "comparison",
    "dashboard": "live",
    "experiment_view": "experiment",
    "runs": "overlay",
    "signal_browser": "browsers",
    "step_through": "stepper",
    "task_review": "review",
    "task_set_view": "browsers",
    "trajectory_browser": "trajectories",
    "trajectory_view": "replay",
}
__all__ = [
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


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name not in ("ipywidgets", "anywidget", "plotly"):
            raise
        raise PrerequisiteError(f"{name} needs {error.name}: pip install 'coevolve-lab[notebook]'") from None
