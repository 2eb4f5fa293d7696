"""Tables and figures from one's own runs: a declarative file becomes runs, runs become results.

>>> from coevolve_lab.experiments import expand, load, play, write
>>> plan = expand(load("table5"), "tiny")
>>> play(plan, "data/experiments/runs", jobs=2)
>>> write(plan, "data/experiments/runs", "data/experiments/results")

The same as ``coevolve-lab reproduce table5 --scale tiny``.
"""

from coevolve_lab.experiments.declaration import known, load, scales
from coevolve_lab.experiments.overview import costs, listing
from coevolve_lab.experiments.plan import expand
from coevolve_lab.experiments.runner import RunsFailed, play
from coevolve_lab.experiments.writing import check, write

__all__ = ["RunsFailed", "check", "costs", "expand", "known", "listing", "load", "play", "scales", "write"]
