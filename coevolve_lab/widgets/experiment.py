"""An experiment while it is played: which runs are where, and the learning curves as far as they go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ipywidgets as W
import polars as pl

from coevolve_lab.errors import ConfigError
from coevolve_lab.experiments.plan import Cell, Plan
from coevolve_lab.figures import style
from coevolve_lab.widgets import markup, view
from coevolve_lab.widgets.experiment_queries import Seen, Watch, curves, label
from coevolve_lab.widgets.figure import LiveFigure
from coevolve_lab.widgets.following import Following

WIDTH, HEIGHT, MOST_WORDS = 900, 400, 120


@view.never_raises
def experiment_view(plan: Plan, folder: str | Path, every: float = 2.0) -> W.Widget:
    """A table of a plan's runs, arm by seed, and their learning curves, which follow while ``play`` runs anywhere.

    >>> view = experiment_view(plan, "data/experiments/runs")
    >>> play(plan, "data/experiments/runs", jobs=2)

    every: seconds between looks; 0 looks only when ``refresh()`` is called. Curves count runs that are not finished,
    too: what is compared is what ``collect`` gives. ``close()`` ends it; so do the last run, and a newer view of these.
    """
    if not isinstance(plan, Plan):
        raise ConfigError(f"a plan is what expand(load('table5'), 'tiny') gives, not {type(plan).__name__}")
    return ExperimentView(plan, Path(folder), every)


class ExperimentView(Following):
    """See ``experiment_view``. A thread looks, so that the view follows while a cell below plays the runs."""

    def __init__(self, plan: Plan, folder: Path, every: float = 2.0) -> None:
        super().__init__()
        self._plan, self._folder, self._watch = plan, folder, Watch(plan, folder)
        self._seen: dict[str, Seen] = {}
        self._shown: dict[str, Seen] = {}  # by the widgets; ``plain`` may have seen more
        self.table = view.html()
        self.table.add_class("coevolve-runs")
        self.live = _empty_figure(plan)
        self.fill([self.status_line, self.table, self.live.widget])
        self.refresh()
        if every > 0:
            self.follow((folder.resolve(), *(one.key for one in plan.wanted)), every, "experiment")

    @property
    def finished(self) -> bool:
        """Whether all runs are."""
        return bool(self._seen) and all(one.state == "finished" for one in self._seen.values())

    def refresh(self) -> None:
        """Look at the runs now."""
        with self._mutex, self.guarded():
            self._seen = self._watch.look()
            if self._seen == self._shown:
                return
            self.say(self._line())
            self.table.value = markup.wrap(self._table())
            _draw(self.live, self._plan, curves(self._plan, self._seen))
            self._shown = self._seen

    def over(self) -> bool:
        return self.finished

    def plain(self) -> tuple[str, str]:
        with self._mutex:
            self._seen = self._watch.look()
        lines = [f"{name}: {', '.join(f'seed {seed} {_words(one)}' for seed, one in by)}" for name, by in self._rows()]
        head = f"{self._plan.experiment.title}, scale {self._plan.scale}, in {self._folder}"
        return "\n".join([head, *lines]), f"<p>{self._line()}</p>{self._table()}"

    def _line(self) -> str:
        runs = [self._seen[cell.key] for cell in self._plan.runs]
        finished, failed = (sum(one.state == state for one in runs) for state in ("finished", "failed"))
        parts = [
            f"<b>{markup.text(self._plan.experiment.title)}</b>",
            f"scale {markup.text(self._plan.scale)}",
            f"{finished} of {len(runs)} runs finished",
        ]
        parts += [f"{failed} failed: the same call of play tries again"] if failed else []
        share = finished / max(1, len(runs))
        return f'<span class="meter"><span style="width:{100 * share:.0f}%"></span></span>' + " · ".join(parts)

    def _table(self) -> str:
        seeds = sorted({cell.seed for cell in self._plan.cells})
        rows = []
        for name, by_seed in self._rows():
            cells = dict(by_seed)
            rows.append([name, *(markup.Markup(_cell(cells[seed]) if seed in cells else "") for seed in seeds)])
        return markup.table(["", *(f"seed {seed}" for seed in seeds)], rows)

    def _rows(self) -> list[tuple[str, list[tuple[int, Seen]]]]:
        """A row for each start that arms share, then one for each arm, with what is seen of it by seed."""
        rows: dict[str, dict[int, Seen]] = {}
        for cell in self._plan.cells:
            rows.setdefault(_start_name(self._plan, cell), {})[cell.seed] = self._seen[cell.start.key]
        for cell in self._plan.cells:
            rows.setdefault(label(self._plan, cell), {})[cell.seed] = self._seen[cell.key]
        return [(name, sorted(by_seed.items(), key=lambda item: item[0])) for name, by_seed in rows.items()]


def _start_name(plan: Plan, cell: Cell) -> str:
    """ "start", or the first arm that begins there where arms begin in different places."""
    of_seed = [other for other in plan.cells if other.seed == cell.seed]
    if len({other.start.key for other in of_seed}) == 1:
        return "start"
    first = next(other for other in of_seed if other.start.key == cell.start.key)
    return f"start of {label(plan, first)}"


def _cell(one: Seen) -> str:
    if one.state == "waiting":
        return markup.muted("waiting")
    if one.state == "failed":
        return f"{markup.tag('failed', False)} {markup.text(one.words, MOST_WORDS)}"
    score = f" {one.scores[-1][1]:.1%}" if one.scores else ""
    if one.state == "finished":
        return f"{markup.tag('finished', True)}{score}"
    share = (one.done or 0) / max(1, one.rounds)
    bar = f'<span class="meter"><span style="width:{100 * share:.0f}%"></span></span>' if one.rounds else ""
    return f"{bar}{markup.text(_words(one))}{score}"


def _words(one: Seen) -> str:
    if one.state != "begun":
        return one.state
    return f"round {one.done or 0} of {one.rounds}" if one.rounds else "begun"


def _empty_figure(plan: Plan) -> LiveFigure:
    """All traces from the start, bands below lines, so that colours do not depend on which run comes first."""
    empty = style.figure("Score over training, mean over the seeds so far", "training step", "share of tasks solved")
    empty.update_layout(width=WIDTH, height=HEIGHT, uirevision="kept").update_yaxes(tickformat=".0%")
    live = LiveFigure(empty)
    _draw(live, plan, curves(plan, {}))
    return live


def _draw(live: LiveFigure, plan: Plan, scores: pl.DataFrame) -> None:
    labels = list(dict.fromkeys(label(plan, cell) for cell in plan.cells))
    means = scores.group_by("method", "step").agg(
        pl.col("score").mean().alias("mean"),
        (pl.col("score").std(ddof=1) / pl.len().sqrt()).fill_null(0.0).alias("stderr"),
    )
    by_label = {name: means.filter(pl.col("method") == name).sort("step") for name in labels}
    with live.batch():
        for index, (name, own) in enumerate(by_label.items()):
            edge: dict[str, Any] = {"mode": "lines", "line": {"width": 0}, "hoverinfo": "skip", "showlegend": False}
            band = style.faded(style.series_look(index).color, 0.16)
            live.put(f"{name}, upper", own["step"], own["mean"] + own["stderr"], legendgroup=name, **edge)
            lower = own["mean"] - own["stderr"]
            live.put(f"{name}, lower", own["step"], lower, legendgroup=name, fill="tonexty", fillcolor=band, **edge)
        for index, (name, own) in enumerate(by_label.items()):
            look = style.series_look(index)
            seeds = scores.filter(pl.col("method") == name)["seed"].n_unique()
            live.put(
                name,
                own["step"],
                own["mean"],
                mode="lines+markers",
                line=style.line(look),
                marker=style.point(look),
                legendgroup=name,
                change={"name": f"{name} ({seeds} seed{'' if seeds == 1 else 's'})"},
            )
