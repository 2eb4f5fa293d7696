"""What a method is: settings, and a way to play a run that has its D_0 to its end.

Importing the methods loads no model library, so that experiments can be listed and planned in a moment: ``CoEvolve`` is
imported for annotations alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coevolve_lab.loop import CoEvolve


@dataclass(frozen=True)
class Method:
    """One row of the paper's comparisons (tables 3 and 10).

    name: the paper's name of the row; title: what people read in a figure; source: who published it. changes: settings
    that make a run of it, merged last over any config (``load_config(config, **method.changes)``).

    rounds takes a run whose round 0 is committed (D_0 and, in general, an evaluation before training) to
    ``config.rounds`` committed rounds. Called again it goes on after the last commit; a finished run is left as it is,
    and no model is loaded for it. What is left is a run folder like any other.
    own_evaluation: the method is a way to play the evaluation split, so that the policy's plain score on any split is
    not its score.
    """

    name: str
    title: str
    source: str
    changes: Mapping[str, Any]
    rounds: Callable[[CoEvolve], None]
    own_evaluation: bool = False

    def play(self, run: CoEvolve) -> None:
        """``rounds``, then the run's snapshot (``CoEvolve.snapshot``)."""
        self.rounds(run)
        run.snapshot()


def finished(run: CoEvolve) -> bool:
    """Whether all rounds of the run's config are committed."""
    done = run.reader.committed_round
    return done is not None and done >= run.config.rounds


def play_rounds(run: CoEvolve, play_round: Callable[[CoEvolve], None]) -> None:
    """``play_round`` and a commit, until ``config.rounds`` rounds are committed.

    For methods whose round is not the ring's. Each begins with what people decided (``take_up_reviews``). A round in
    which anything is raised is dropped, Ctrl-C included, so that playing again begins it anew.
    """
    if finished(run):
        return
    run.seed_tasks()
    try:
        while run.round_in_progress <= run.config.rounds:
            run.take_up_reviews()
            play_round(run)
            run.commit()
    except BaseException:
        run.close()
        raise


def evaluate_if_due(run: CoEvolve) -> None:
    """The evaluation that ends a round, as often as ``config.evaluate_every`` says."""
    if run.round_in_progress % run.config.evaluate_every == 0:
        run.evaluate()
