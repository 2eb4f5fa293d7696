"""What CoEvolve is compared with: methods by the paper's names of their rows (tables 3 and 10), each cited.

>>> from coevolve_lab import CoEvolve, methods
>>> from coevolve_lab.config import load_config
>>> method = methods.find("curriculum_learning")
>>> run = CoEvolve(load_config("configs/bfcl-tiny.yaml", **method.changes), run_dir="data/runs/curriculum")
>>> run.seed_tasks()
>>> method.play(run)
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType

from coevolve_lab.errors import ConfigError
from coevolve_lab.methods.base import Method
from coevolve_lab.methods.curriculum import CURRICULUM_LEARNING
from coevolve_lab.methods.reflexion import REFLEXION
from coevolve_lab.methods.rest import REST
from coevolve_lab.methods.ring import COEVOLVE, GRPO, RANDOM_EXPLORATION, UNIFORM_APPEND
from coevolve_lab.methods.zero_shot import ZERO_SHOT

__all__ = ["METHODS", "Method", "find"]

METHODS: Mapping[str, Method] = MappingProxyType(
    {
        method.name: method
        for method in (
            ZERO_SHOT,
            REFLEXION,
            CURRICULUM_LEARNING,
            REST,
            GRPO,
            RANDOM_EXPLORATION,
            UNIFORM_APPEND,
            COEVOLVE,
        )
    }
)


def find(name: str) -> Method:
    """The method of that name. Raises ConfigError naming the nearest one."""
    if name not in METHODS:
        near = difflib.get_close_matches(name, METHODS, n=1, cutoff=0.0)
        raise ConfigError(f"no method is called '{name}'; did you mean '{near[0]}'? (there is {', '.join(METHODS)})")
    return METHODS[name]
