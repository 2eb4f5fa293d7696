"""Methods that are the ring itself under other settings: what ``evolution.mode`` says, and no code of their own."""

from __future__ import annotations

from coevolve_lab.loop import CoEvolve
from coevolve_lab.methods.base import Method, finished

PAPER = "Yang et al. 2026, CoEvolve (ACL 2026), arXiv:2604.15840"


def play_ring(run: CoEvolve) -> None:
    """The ring's own rounds; a round that was interrupted in this process goes on with the interrupted stage."""
    if not finished(run):
        run.rounds()


GRPO = Method(
    "grpo",
    "GRPO",
    "Shao et al. 2024, DeepSeekMath, arXiv:2402.03300; on a static D_0 as in table 3 of arXiv:2604.15840",
    {"evolution": {"mode": "none"}},
    play_ring,
)
RANDOM_EXPLORATION = Method(
    "random_exploration",
    "Random exploration",
    f"{PAPER}, table 3: evolution without signals, where the explorer goes by itself",
    {"evolution": {"mode": "random"}},
    play_ring,
)
UNIFORM_APPEND = Method(
    "uniform_append",
    "Uniform append",
    "this project: a control that explores every tool alike, so that coverage alone is not taken for feedback",
    {"evolution": {"mode": "uniform"}},
    play_ring,
)
COEVOLVE = Method("coevolve", "CoEvolve", PAPER, {"evolution": {"mode": "feedback"}}, play_ring)
