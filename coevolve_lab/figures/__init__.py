"""One function per figure: polars frames in (columns as in the store's tables), a plotly Figure out.

They know nothing of runs or widgets. ``dark=True`` suits a dark notebook. Frames without rows give a figure that says
what is missing. plotly is loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coevolve_lab.figures.by_method import method_scores
    from coevolve_lab.figures.comparison import cross_comparison
    from coevolve_lab.figures.costs import cost_share
    from coevolve_lab.figures.gains import paired_gains
    from coevolve_lab.figures.health import policy_health
    from coevolve_lab.figures.learning import learning_curves
    from coevolve_lab.figures.maps import task_map
    from coevolve_lab.figures.published import overlay_pass_rate, overlay_scores, overlay_signals
    from coevolve_lab.figures.saving import save, save_all
    from coevolve_lab.figures.scores import score_per_step
    from coevolve_lab.figures.shares import signal_shares
    from coevolve_lab.figures.signal_counts import signals_per_round
    from coevolve_lab.figures.similarity import similarity_histogram
    from coevolve_lab.figures.task_set import task_set_growth, turn_histogram
    from coevolve_lab.figures.tool_scores import solve_rates, tool_rates
    from coevolve_lab.figures.verdicts import pass_rate

_HOMES = {
    "cost_share": "costs",
    "cross_comparison": "comparison",
    "learning_curves": "learning",
    "method_scores": "by_method",
    "overlay_pass_rate": "published",
    "overlay_scores": "published",
    "overlay_signals": "published",
    "paired_gains": "gains",
    "pass_rate": "verdicts",
    "policy_health": "health",
    "save": "saving",
    "save_all": "saving",
    "score_per_step": "scores",
    "signal_shares": "shares",
    "signals_per_round": "signal_counts",
    "similarity_histogram": "similarity",
    "solve_rates": "tool_scores",
    "task_map": "maps",
    "task_set_growth": "task_set",
    "tool_rates": "tool_scores",
    "turn_histogram": "task_set",
}
__all__ = [
    "cost_share",
    "cross_comparison",
    "learning_curves",
    "method_scores",
    "overlay_pass_rate",
    "overlay_scores",
    "overlay_signals",
    "paired_gains",
    "pass_rate",
    "policy_health",
    "save",
    "save_all",
    "score_per_step",
    "signal_shares",
    "signals_per_round",
    "similarity_histogram",
    "solve_rates",
    "task_map",
    "task_set_growth",
    "tool_rates",
    "turn_histogram",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
