"""The dashboard: how a run is doing, while it runs, and the buttons that drive it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import ipywidgets as W
import polars as pl

from coevolve_lab.background import Background, RunStatus
from coevolve_lab.background.status import duration
from coevolve_lab.config import TrainingConfig
from coevolve_lab.report import rounds_table
from coevolve_lab.widgets import markup, view
from coevolve_lab.widgets.following import Following
from coevolve_lab.widgets.forking import Fork
from coevolve_lab.widgets.progress_figure import progress_figure, show
from coevolve_lab.widgets.progress_queries import Progress, look

CONTROLS = ("step", "round", "start", "pause", "resume", "stop")
_TIPS = {
    "step": "one training step here: rollout, train, find signals",
    "round": "one round here: training steps, evolution, evaluation, commit",
    "start": "let the run go on in a kernel of its own, until its last round; this notebook stays free",
    "pause": "ask the background run to wait between two stages",
    "resume": "let the background run go on, after a pause or from the last commit",
    "stop": "end the background run once its round is committed",
    "fork": "what if? a copy of the run up to a round, which goes on with other settings",
}
_ROWS = 20  # of the plain table


@view.never_raises
def dashboard(run: Any, every: float = 1.0, imports: Sequence[str] = ()) -> W.Widget:
    """Live curves of a run, with its controls.

    >>> dashboard(run)

    run: a CoEvolve, a RunReader or a run folder (to look on, pause, resume and stop). every: seconds between looks at
    the run folder; 0 looks only when ``refresh()`` is called. imports: what ``start`` has to import in the kernel that
    it makes, as in ``CoEvolve.start``. ``close()`` ends it; a newer dashboard of the same run ends its looking. A run
    that cannot be opened gives a view with the error.
    """
    return Dashboard(run, every, imports)


class Dashboard(Following):
    """See ``dashboard``. A thread looks at the run, so that the view lives on while a cell or a button runs a round."""

    def __init__(self, run: Any, every: float = 1.0, imports: Sequence[str] = ()) -> None:
        super().__init__()
        self._run, self._reader = run, view.reader_of(run)
        self._background = Background(self._reader.run_dir)
        self._imports, self._busy = tuple(imports), ""
        self._progress: Progress | None = None
        self.live = progress_figure()
        self.buttons = {
            name: view.button(name, _TIPS[name], f"coevolve-{name}", partial(self._do, name)) for name in CONTROLS
        }
        self.fork = view.button("fork here", _TIPS["fork"], "coevolve-fork", self._show_fork)
        self.measure = W.ToggleButtons(
            options=[("signal counts", "counts"), ("signal shares", "shares")],
            layout={"margin": "2px 0 0 16px", "width": "max-content"},
            style={"button_width": "auto"},
        )
        self.measure.add_class("coevolve-measure")
        self.measure.observe(lambda _: self._redraw(), "value")
        self.forking = W.VBox()  # a place of its own: the figure is not drawn anew when the form comes and goes
        bar = W.HBox([*self.buttons.values(), self.fork, self.measure], layout={"flex_flow": "row wrap"})
        self.fill([self.status_line, bar, self.forking, self.live.widget])
        self.refresh()
        if every > 0:
            self.follow(self._reader.run_dir.resolve(), every, "dashboard")

    def refresh(self) -> None:
        """Look at the run now."""
        with self._mutex, self.guarded():
            self._reader = getattr(self._run, "reader", self._reader)  # a CoEvolve's is another one while it writes
            before, self._progress = self._progress, look(self._reader, self._progress)
            if before is None or before.version != self._progress.version:
                show(self.live, self._progress, self._shares)
            status = self._status()
            self.say(self._line(self._progress, status))
            self._enable(status, self._progress.committed)
            self._set(self.fork, "disabled", self._progress.committed is None)

    def over(self) -> bool:
        """Whether the run's folder is gone."""
        return not self._reader.run_dir.exists()

    def plain(self) -> tuple[str, str]:
        rounds = rounds_table(view.reader_of(self._run)).tail(_ROWS)
        status = self._line(look(view.reader_of(self._run)), self._status())
        html = f"<p>{status}</p>{markup.table(rounds.columns, rounds.rows())}"
        return f"dashboard of {self._reader.run_dir}\n{rounds}", html

    # ---- state

    @property
    def _shares(self) -> bool:
        return bool(self.measure.value == "shares")

    @property
    def _rounds(self) -> int:
        """How many the run has by its config; its background may have been asked for others."""
        return int(self._reader.config["rounds"])

    def _status(self) -> RunStatus:
        return self._background.status()

    def _line(self, progress: Progress, status: RunStatus) -> str:
        name, done, wanted, state = self._reader.config["name"], progress.committed, status.rounds, status.state
        if state in ("idle", "finished"):  # the background may have been asked for fewer rounds than the run has
            wanted = max(wanted, self._rounds)
            state = "finished" if (done or 0) >= wanted else "idle"
        parts = [
            f"<b>{markup.text(name)}</b> {markup.tag(self._busy or state)}",
            "nothing committed yet" if done is None else f"{done} of {wanted} rounds committed",
            f"{progress.steps:,} training steps",
            f"{progress.size:,} tasks",
        ]
        if progress.evaluations.height:
            first, last = (progress.evaluations.row(i, named=True) for i in (0, -1))
            parts.append(f"score {last['score']:.3f} ± {last['stderr']:.3f} (first {first['score']:.3f})")
        if status.state == "running":
            at = f"{status.stage} {status.done}/{status.total}" if status.total else status.stage
            parts.append(f"round {status.round}, step {status.step} of {status.steps_per_round}: {markup.text(at)}")
        left = status.eta
        if left is None and done and done < wanted:
            left = (wanted - done) * progress.seconds / done
        if left is not None and (done or 0) < wanted:
            parts.append(f"about {duration(left)} to go")
        limit = self._reader.config["training"].get("gap_alarm", TrainingConfig().gap_alarm)  # older runs have none
        parts += _gap_alarm(progress.updates, float(limit))
        parts += _server(progress) if self._reader.config.get("engine", {}).get("kind") == "vllm" else []
        parts += [markup.text(said) for said in (status.message, status.error) if said]
        share = min(1.0, (done or 0) / max(1, wanted))
        bar = f'<span class="meter"><span style="width:{100 * share:.0f}%"></span></span>'
        return bar + " · ".join(parts)

    def _enable(self, status: RunStatus, committed: int | None) -> None:
        away = status.state in ("running", "paused")
        here = hasattr(self._run, "rollout") and not away and not self._busy
        allowed = {
            "step": here,
            "round": here,
            "start": here and (committed or 0) < self._rounds,
            "pause": status.state == "running",
            "resume": status.state in ("paused", "dead", "failed")
            or bool(status.state in ("running", "idle") and status.message),  # asked to rest, or stopped
            "stop": away,
        }
        for name, button in self.buttons.items():
            self._set(button, "disabled", not allowed[name])

    @staticmethod
    def _set(widget: W.Widget, trait: str, value: Any) -> None:
        if getattr(widget, trait) != value:
            setattr(widget, trait, value)

    # ---- buttons

    def _redraw(self) -> None:
        with self._mutex, self.guarded():
            if self._progress is not None:
                show(self.live, self._progress, self._shares)

    def _show_fork(self) -> None:
        """Open the form that forks the run, or put it away."""
        with self.guarded():
            self.forking.children = () if self.forking.children else (Fork(self._reader.run_dir),)

    def _do(self, name: str) -> None:
        with self.guarded():
            if name in ("step", "round"):
                self._in_foreground(name)
            else:
                ask = getattr(self._run, name, None) or getattr(self._background, name)
                ask(**({"imports": self._imports} if name == "start" else {}))
        shown = self.error
        self.refresh()
        if shown:  # a refresh that goes well must not wipe what the click said
            self._error.value, self._error.layout.display = shown, None

    def _in_foreground(self, name: str) -> None:
        """Run in the kernel, as a cell would: interrupting the kernel interrupts it."""
        self._busy = f"{name} running here"
        self.refresh()
        try:
            if name == "round":
                self._run.round()
            else:
                self._run.seed_tasks()
                batch = self._run.rollout()
                self._run.train(batch)
                self._run.find_signals(batch)
        finally:
            self._busy = ""


def _server(progress: Progress) -> list[str]:
    """How the server that samples is doing: arrivals of versions, restarts, requests given up, and staleness."""
    costs, updates = progress.stage_costs, progress.updates
    swaps, restarts, missed = (int(costs[name].sum() or 0) for name in ("swaps", "restarts", "missed"))
    if not swaps:
        return []
    last = costs.drop_nulls("swapped").sort("swapped").row(-1, named=True)
    arrived = "1 version arrived," if swaps == 1 else f"{swaps:,} versions arrived, the last"
    said = [f"server: {arrived} in {last['swap_seconds']:.2g} s"]
    if restarts:
        said.append(f"{markup.tag('restarts', good=False)} {restarts:,}")
    if missed:
        said.append(f"{markup.tag('requests given up', good=False)} {missed:,}")
    if oldest := updates.select(pl.col("staleness").max()).item():
        said.append(f"rollouts at most {oldest} {'version' if oldest == 1 else 'versions'} behind")
    if refused := int(updates["refused"].sum() or 0):
        said.append(f"{refused:,} refused as older")
    return said


def _gap_alarm(updates: pl.DataFrame, limit: float) -> list[str]:
    """What to say when sampler and trainer ever disagreed by more than ``training.gap_alarm``; else nothing."""
    over = updates.filter(pl.col("gap") > limit).sort("gap", descending=True)
    if over.is_empty():
        return []
    worst, now = over.row(0, named=True), updates["gap"].drop_nulls()[-1]
    return [
        f"{markup.tag('log-prob gap', good=False)} {worst['gap']:.3g} nats a token at step {worst['step']}, "
        f"now {now:.3g} (alarm at {limit:g})"
    ]
