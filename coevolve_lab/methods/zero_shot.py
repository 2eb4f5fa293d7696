"""Zero-shot: the policy as it came, evaluated once and never trained."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coevolve_lab.methods.base import Method, finished
from coevolve_lab.records import Evaluation

if TYPE_CHECKING:
    from coevolve_lab.loop import CoEvolve


def first_evaluation(run: CoEvolve) -> Evaluation:
    """The evaluation before training, on the run's own split; made now if round 0 came without one."""
    split = run.config.environment.evaluation_split
    found = [e for e in run.reader.records(Evaluation, "round = 0") if e.split == split]
    return found[-1] if found else run.evaluate()


def evaluate(run: CoEvolve) -> None:
    """D_0 and its evaluation, unless they are there."""
    if not finished(run):
        run.seed_tasks()
    first_evaluation(run)


ZERO_SHOT = Method(
    "zero_shot",
    "Zero-shot",
    "the untrained policy: first row of tables 1, 3 and 10 of arXiv:2604.15840",
    {"rounds": 0, "evolution": {"mode": "none"}},
    evaluate,
)
