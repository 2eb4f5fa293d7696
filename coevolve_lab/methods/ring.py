"""Methods that are the ring itself under other settings: what ``evolution.mode`` says, and no code of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coevolve_lab.methods.base import Method, finished

if TYPE_CHECKING:
    from coevolve_lab.loop import CoEvolve

PAPER = "Yang et al. 2026, CoEvolve (ACL 2026), arXiv:2604.15840"


def ring(run: CoEvolve) -> None:
    """The ring's own rounds; a round that was interrupted in this process goes on with the interrupted stage."""
    while not finished(run):
        run.round()


GRPO = Method(
    "grpo",
    "GRPO",
    "Shao et al. 2024, DeepSeekMath, arXiv:2402.03300; on a static D_0 as in table 3 of arXiv:2604.15840",
    {"evolution": {"mode": "none"}},
    ring,
)
RANDOM_EXPLORATION = Method(
    "random_exploration",
    "Random exploration",
    f"{PAPER}, table 3: evolution without signals, where the explorer goes by itself",
    {"evolution": {"mode": "random"}},
    ring,
)
UNIFORM_APPEND = Method(
    "uniform_append",
    "Uniform append",
    "this project: a control that explores every tool alike, so that coverage alone is not taken for feedback",
    {"evolution": {"mode": "uniform"}},
    ring,
)
COEVOLVE = Method("coevolve", "CoEvolve", PAPER, {"evolution": {"mode": "feedback"}}, ring)
