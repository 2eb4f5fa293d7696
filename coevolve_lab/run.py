"""A run as a folder: opened or made, locked for writing, looked at, forked, handed to a kernel of its own.

What is done in a run, the stages, is ``loop.CoEvolve``.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from coevolve_lab import review
from coevolve_lab.background import Background
from coevolve_lab.config import Config, load_config
from coevolve_lab.errors import ConfigError, StoreError
from coevolve_lab.store import RunReader, RunWriter, copy_until, free_folder, quoted, write_snapshot
from coevolve_lab.store.run_folder import RunFolder

if TYPE_CHECKING:
    import polars as pl

    from coevolve_lab.background import RunStatus
    from coevolve_lab.background.watcher import Watcher
    from coevolve_lab.records import Decision, Review, Verdict

_open_runs: weakref.WeakValueDictionary[Path, Run] = weakref.WeakValueDictionary()


class Run:
    """See ``CoEvolve``, whose instances these are."""

    _writer: RunWriter | None
    _reader: RunReader
    round_in_progress: int
    _begun: bool  # whether the round in progress has records

    def __init__(self, config: Any, run_dir: str | Path, *, progress: bool = True, **overrides: Any) -> None:
        self.config: Config = load_config(config, **overrides)
        started = (Path(run_dir) / "config.json").exists()
        if started:  # before an older object of this process has to give way
            RunFolder(run_dir).check_config(self.config)
        self._begin(Path(run_dir), progress)
        if started and self.background.alive():  # the cell that made the run was executed again: look at it
            self._reader = RunReader(self.run_dir)
            return
        if started:
            self._writer = RunWriter.open(self.run_dir, self.config)
        else:
            self._writer = RunWriter.create(self.run_dir, self.config)
        self._follow_writer()

    @classmethod
    def open(cls, run_dir: str | Path, *, progress: bool = True) -> Self:
        """A run that exists. Reading takes no lock: the run is locked by the first stage that is called."""
        run = cls.__new__(cls)
        reader = RunReader(run_dir)
        run.config = load_config(reader.config)
        run._begin(Path(run_dir), progress)
        run._reader = reader
        return run

    def _begin(self, run_dir: Path, progress: bool) -> None:
        self.run_dir = run_dir.resolve()
        self._progress = progress
        self._writer = None
        self.background = Background(self.run_dir)
        self.watcher: Watcher | None = None
        before = _open_runs.get(self.run_dir)
        if before is not None:  # a notebook cell that opens the run was executed again
            if before._writer is not None and before._begun:
                warnings.warn(
                    f"round {before.round_in_progress} of {self.run_dir} had records that were not committed, and "
                    "opening the run again dropped them: use the object that you have, or run.commit() first",
                    stacklevel=3,
                )
            before.close()
        _open_runs[self.run_dir] = self
        self._begun = False

    def snapshot(self) -> Path:
        """One ``run.duckdb`` with all tables, that any tool opens, replaced atomically."""
        return write_snapshot(self.run_dir)

    def fork(self, round: int, run_dir: str | Path | None = None, **changes: Any) -> Self:
        """A new run that shares this one's rounds up to ``round`` and goes on with a changed config: what if?

        >>> run.fork(round=1, signals={"rare": None})

        run_dir: its folder (this one's with -fork1, -fork2, ...). Raises StoreError for a round that is not committed
        and a folder that exists, ConfigError for another environment, whose tasks these are not.
        """
        target = Path(run_dir) if run_dir else free_folder(self.run_dir)
        config = load_config(self.config, **changes)
        ours, other = self.config.environment.name, config.environment.name
        if other != ours:
            raise ConfigError(
                f"a fork keeps the tasks of its run, and these are {ours}'s: begin a new run in {other}, or see what "
                "the policy can do there with run.evaluate(elsewhere=...)"
            )
        copy_until(self.run_dir, target, round, config)
        return type(self).open(target, progress=self._progress)

    def close(self) -> None:
        """Let others write to the run. What was not committed is lost to it."""
        if self._writer is not None:
            self._writer.close()
            if (self.run_dir / "config.json").exists():  # else the folder was deleted: nothing to look at any more
                self._reader = RunReader(self.run_dir)
        self._writer = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        done = self.reader.committed_round
        state = "nothing committed yet" if done is None else f"{done} of {self.config.rounds} rounds committed"
        return f"CoEvolve({self.config.name!r}, {str(self.run_dir)!r}: {state}, mode {self.config.evolution.mode})"

    # ---- in a kernel of its own (background/)

    def start(self, rounds: int | None = None, imports: Sequence[str] = ()) -> RunStatus:
        """Rounds until ``rounds`` (``config.rounds``) are committed, in a Jupyter kernel of their own.

        Closing this notebook does not touch it; ``CoEvolve.open(run_dir)`` anywhere sees and controls it. imports:
        modules or .py files that register your environments, signals or explorers there. Raises StoreError while a
        round has records here that are not committed, and what ``Background.start`` raises.
        """
        if self._writer is not None and self._begun:
            raise StoreError(
                f"round {self.round_in_progress} has records that are not committed, and the kernel begins at the last "
                "commit: finish the round with run.round() or run.commit(), or drop it with run.close(), then start"
            )
        self.close()
        return self.background.start(rounds, imports)

    def status(self) -> RunStatus:
        """What the background does: print it, or read its fields."""
        return self.background.status()

    def pause(self) -> RunStatus:
        """Ask the background to pause between two stages, the round kept in its memory."""
        return self.background.pause()

    def resume(self) -> RunStatus:
        """Let the background go on: after a pause or an interrupt, or in a new kernel from the last commit."""
        return self.background.resume()

    def stop(self, discard: bool = False) -> RunStatus:
        """Ask the background to end once its round is committed; discard: at once, without that round."""
        return self.background.stop(discard)

    def interrupt(self) -> RunStatus:
        """Ctrl-C for the background: its prompt is free again, and ``resume`` goes on with the interrupted stage."""
        return self.background.interrupt()

    def logs(self, lines: int = 40) -> str:
        """The last lines that the background printed."""
        return self.background.logs(lines)

    # ---- looking at the records, as polars

    @property
    def reader(self) -> RunReader:
        """The run's records, read without a lock: ``table``, ``records``, ``sql``, ``table_names``."""
        return self._reader

    def sql(self, query: str) -> pl.DataFrame:
        """One SELECT over the run's tables (``run.reader.table_names``)."""
        return self.reader.sql(query)

    def tasks(self) -> pl.DataFrame:
        """D_t, one row a task."""
        return self.reader.table("tasks")

    def trajectories(self) -> pl.DataFrame:
        """One row an episode, of training and of evaluations (``purpose``); what was done in it is the table steps."""
        return self.reader.table("trajectories")

    def signals(self) -> pl.DataFrame:
        """One row a mark on a trajectory."""
        return self.reader.table("signals")

    def verdicts(self) -> pl.DataFrame:
        """One row a draft that was validated: outcome, reason, score."""
        return self.reader.table("verdicts")

    def metrics(self) -> pl.DataFrame:
        """One row a training step: the update, and the evaluation made after it if there was one."""
        split = self.config.environment.evaluation_split
        return self.reader.sql(
            f"with last as (select step, split, score, stderr from evaluations where split = {quoted(split)} qualify "
            "row_number() over (partition by step order by round desc, length(id) desc, id desc) = 1) "
            "select u.*, last.score, last.stderr, last.split from updates u left join last using (step) order by step"
        )

    # ---- people decide (``evolution.review``)

    def held(self) -> pl.DataFrame:
        """Drafts that passed validation and wait for a person, oldest first; ``decided``: what one has left about each,
        which is not yet in force."""
        return review.held(self.reader)

    def decide(
        self,
        draft_id: str,
        decision: Decision,
        reason: str = "",
        turns: Sequence[str] = (),
        solution: Sequence[Sequence[str]] = (),
        reviewer: str | None = None,
    ) -> Review:
        """Accept, reject or edit a held draft, from anywhere; the run takes it up when it next begins a round.

        Raises StoreError when the draft does not wait, or an edit lacks turns or calls.
        """
        return review.decide(self.reader, draft_id, decision, reason, turns, solution, reviewer)

    def check_edit(self, draft_id: str, turns: Sequence[str], solution: Sequence[Sequence[str]]) -> Verdict:
        """What validation would say of an edit of a held draft, by executing it here; nothing is recorded."""
        return review.check_edit(self.config, self.reader, draft_id, turns, solution)

    # ---- plumbing

    def _write(self) -> RunWriter:
        if self._writer is None:
            if _open_runs.setdefault(self.run_dir, self) is not self:
                raise StoreError(f"{self.run_dir} was opened again in this process; use the newer object")
            self.background.refuse_foreground()
            self._writer = RunWriter.open(self.run_dir)
            self._follow_writer()
        return self._writer

    def _follow_writer(self) -> None:
        assert self._writer is not None
        self._reader = self._writer.reader
        weakref.finalize(self, self._writer.close)  # an object that is dropped must not keep its run locked

    def _record(self, records: Sequence[Any]) -> None:
        self._write().append(records)
