"""Weakness signals (section 3.1): one file per signal over one small protocol, and a registry for your own."""

from coevolve_lab.signals.base import Detector, build_detectors, find_signals, register_signal, registered_signals
from coevolve_lab.signals.boundary import Boundary, boundary_mask
from coevolve_lab.signals.forgetting import Forgetting, forgetting_mask
from coevolve_lab.signals.patterns import action_patterns
from coevolve_lab.signals.rare import Rare, rare_patterns

__all__ = [
    "Boundary",
    "Detector",
    "Forgetting",
    "Rare",
    "action_patterns",
    "boundary_mask",
    "build_detectors",
    "find_signals",
    "forgetting_mask",
    "rare_patterns",
    "register_signal",
    "registered_signals",
]
