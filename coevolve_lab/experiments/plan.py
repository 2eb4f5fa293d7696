"""An experiment becomes runs to play, and every run has a key.

A run's folder is named after the fingerprint of its whole config, so that two experiments share what is the same and
never mix what is not. All arms with the same ``initial`` settings begin as forks of one start: the same D_0, the same
warm policy, the same evaluation before training.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from coevolve_lab import methods
from coevolve_lab.config import Config, fingerprint, load_config
from coevolve_lab.cores import usable_cores
from coevolve_lab.errors import ConfigError
from coevolve_lab.experiments.declaration import (
    FOLDER,
    Elsewhere,
    Experiment,
    Here,
    Minutes,
    Place,
    Scale,
    scale_called,
    scales,
)


@dataclass(frozen=True)
class Start:
    """D_0, the warm policy and its evaluation: what the arms of one seed share."""

    key: str
    config: Config


@dataclass(frozen=True)
class Cell:
    """One run: an arm in a column with a seed.

    splits: those that its last policy is evaluated on; reports: the one of them that its column is about; metric: what
    of that ("tgc", "sgc").
    """

    arm: str
    column: str
    environment: str
    seed: int
    method: str
    start: Start
    config: Config
    splits: tuple[str, ...]
    reports: str
    metric: str = "tgc"
    elsewhere: tuple[tuple[str, Config], ...] = ()

    @cached_property
    def key(self) -> str:
        """Name of its folder: equal for equal runs, whichever experiment asks."""
        what: list[Any] = [self.method, _outcome(self.config)]
        if not self.start.key.endswith(fingerprint(_beginning(self.config))):
            what.append(self.start.key)  # begun under other settings than it goes on with
        return f"{self.environment}-{self.method}-s{self.seed}-{fingerprint(what)}"

    @property
    def asked(self) -> tuple[str, ...]:
        """What its last policy is evaluated on, by the names on record."""
        return *self.splits, *(world_name(column, config) for column, config in self.elsewhere)


Wanted = Cell | Start  # what is played
REQUEST: TypeAdapter[Wanted] = TypeAdapter(Wanted)  # one of them as JSON, for the process that plays it


@dataclass(frozen=True)
class Plan:
    """An experiment at a scale: the runs, in the order in which they are played (seed by seed)."""

    experiment: Experiment
    scale: str
    about: str
    minutes: Minutes
    cells: tuple[Cell, ...]

    @cached_property
    def starts(self) -> tuple[Start, ...]:
        return tuple({cell.start.key: cell.start for cell in self.cells}.values())

    @property
    def wanted(self) -> tuple[Wanted, ...]:
        """The starts and the runs, in the order in which they are played."""
        return *self.starts, *self.runs

    @property
    def side_by_side(self) -> int:
        """How many runs this machine's cores can take at once; one where the config leaves torch all of them."""
        threads = max((cell.config.threads or 0 for cell in self.cells), default=0)
        return max(1, usable_cores() // threads) if threads else 1

    @cached_property
    def runs(self) -> tuple[Cell, ...]:
        """The different runs: arms that are the same run but for their place in the table are one, evaluated on all
        that any of them asks for."""
        found: dict[str, Cell] = {}
        for cell in self.cells:
            found[cell.key] = _both(found[cell.key], cell) if cell.key in found else cell
        return tuple(found.values())


def world_name(column: str, config: Config) -> str:
    """How another world is on record: its column, and which world it was, played how (``loop.CoEvolve.evaluate``)."""
    played = [config.environment.model_dump(mode="json"), config.rollout.model_dump(mode="json")]
    return f"{column}-{fingerprint([*played, config.policy.call_syntax])}"


def _both(one: Cell, other: Cell) -> Cell:
    """A run with what two places in the table ask of it."""
    worlds = {world_name(*world): world for world in (*one.elsewhere, *other.elsewhere)}
    splits = tuple(dict.fromkeys((*one.splits, *other.splits)))
    return replace(one, splits=splits, elsewhere=tuple(worlds.values()))


def expand(
    experiment: Experiment,
    scale: str,
    folder: Path = FOLDER,
    seeds: Sequence[int] | None = None,
    environments: Sequence[str] | None = None,
) -> Plan:
    """The runs of an experiment. seeds, environments: only these, elsewhere too; None: all that the scale has.

    Raises ConfigError for an unknown scale, arm, environment or setting, and for two scores in one place of the table,
    before anything is played.
    """
    return expand_at(experiment, scale, scales(folder), seeds, environments)


def expand_at(
    experiment: Experiment,
    scale: str,
    offered: Mapping[str, Scale],
    seeds: Sequence[int] | None = None,
    environments: Sequence[str] | None = None,
) -> Plan:
    """``expand`` with scales that are loaded already: many experiments share their configs."""
    if strange := [name for name in experiment.scales if name not in offered]:
        raise ConfigError(f"{experiment.name}: no scale '{strange[0]}'; there are {', '.join(offered)}")
    size, here = scale_called(scale, offered), experiment.scales.get(scale, Here())
    if unknown := [name for name in here.arms or () if name not in experiment.arms]:
        raise ConfigError(
            f"{experiment.name}: scale '{scale}' names arm '{unknown[0]}'; arms: {', '.join(experiment.arms)}"
        )
    columns = experiment.environments or {name: Place() for name in size.environments}
    anywhere = list(experiment.environments) or sorted(
        {name for other in offered.values() for name in other.environments}
    )
    for arm, settings in experiment.arms.items():
        if strange := [name for name in settings.only if name not in anywhere]:
            raise ConfigError(
                f"{experiment.name}, arm '{arm}': no column '{strange[0]}'; there are {', '.join(anywhere)}"
            )
    if strange := [name for name in environments or () if name not in size.environments]:
        raise ConfigError(
            f"scale '{scale}' has no environment '{strange[0]}'; there are {', '.join(size.environments)}"
        )
    chosen = size.environments if environments is None else environments
    present = {name: place for name, place in columns.items() if (place.of or name) in chosen}
    if not present:
        wanted = ", ".join(dict.fromkeys(place.of or name for name, place in columns.items()))
        raise ConfigError(f"{experiment.name} is about {wanted}, and scale '{scale}' has {', '.join(chosen)}")
    plain = {name: load_config(config, here.set) for name, config in size.configs.items()}
    splits = size.splits if here.splits is None else here.splits
    cells = [
        _cell(experiment, plain, chosen, splits, column, arm, seed)
        for seed in dict.fromkeys(seeds or here.seeds or size.seeds)
        for column in present
        for arm in (here.arms or experiment.arms)
        if column in (experiment.arms[arm].only or present)
    ]
    if not cells:
        raise ConfigError(f"{experiment.name}: no arm is played in {', '.join(present)}")
    _check_places(experiment, cells)
    return Plan(experiment, scale, size.about, size.minutes, tuple(cells))


def _check_places(experiment: Experiment, cells: Sequence[Cell]) -> None:
    """Raises ConfigError for two scores of one seed in one place of the table: one of them would stand for both."""
    taken: dict[tuple[int, str, str], Cell] = {}
    for cell in cells:
        row, own = experiment.place(cell.arm, cell.column)
        for column in (own, *(other for other, _ in cell.elsewhere)):
            if (place := (cell.seed, row, column)) in taken:
                other = taken[place]
                raise ConfigError(
                    f"{experiment.name}: arm '{other.arm}', played in {other.column}, and arm '{cell.arm}', played in "
                    f"{cell.column}, stand in row '{row}' of one column, {column}; give one another row or column, or "
                    "play it in fewer columns (only)"
                )
            taken[place] = cell


def _cell(
    experiment: Experiment,
    plain: Mapping[str, Config],
    chosen: Collection[str],
    splits: tuple[str, ...],
    column: str,
    name: str,
    seed: int,
) -> Cell:
    """chosen: the environments that are played at all."""
    arm, place = experiment.arms[name], experiment.environments.get(column, Place())
    environment, method = place.of or column, methods.find(arm.method)
    of_seed: dict[str, Any] = {"seed": seed}
    if experiment.own_warm_start:
        of_seed["policy"] = {"warm_start": {"seed": seed}}
    try:
        begun = load_config(plain[environment], of_seed, place.initial, arm.initial)
        config = load_config(begun, method.changes, place.set, arm.set)
        worlds = {other: _world(world, config, plain) for other, world in arm.elsewhere.items()}
    except ConfigError as error:
        raise ConfigError(f"{experiment.name}, arm '{name}': {error}") from None
    warmed = any("warm_start" in part.initial.get("policy", {}) for part in (place, arm))
    if warmed and begun.policy.model != "tiny":
        raise ConfigError(
            f"{experiment.name}, arm '{name}': only the tiny policy has a warm start to change, and at this scale "
            f"policy.model is {begun.policy.model}"
        )
    settled = {
        "seed": (seed, begun.seed, config.seed),
        "environment": (begun.environment, config.environment),
        "policy": (begun.policy, config.policy),
        "evolution.initial_tasks": (begun.evolution.initial_tasks, config.evolution.initial_tasks),
    }
    if wrong := [key for key, values in settled.items() if any(value != values[0] for value in values)]:
        raise ConfigError(
            f"{experiment.name}, arm '{name}': '{wrong[0]}' cannot change after the start: put it under 'initial' "
            "(seeds belong to the scale)"
        )
    beginning = _beginning(begun)
    start = Start(f"{environment}-start-s{seed}-{fingerprint(beginning)}", load_config(beginning))
    own = config.environment.evaluation_split
    reports = place.split or own
    elsewhere = tuple((o, worlds[o]) for o, world in arm.elsewhere.items() if (world.of or environment) in chosen)
    if method.own_evaluation and (reports != own or elsewhere):
        raise ConfigError(
            f"{experiment.name}, arm '{name}': {method.name} is a way to play '{own}', so it has no score on "
            f"{reports if reports != own else elsewhere[0][0]}; leave it out there ('only', no 'elsewhere')"
        )
    asked = tuple(dict.fromkeys((own, *splits, reports)))
    return Cell(name, column, environment, seed, method.name, start, config, asked, reports, place.metric, elsewhere)


def _world(elsewhere: Elsewhere, config: Config, plain: Mapping[str, Config]) -> Config:
    """The config of another world, with the seed of the run that is evaluated there."""
    if elsewhere.of is None:
        return load_config(config, elsewhere.set)
    if elsewhere.of not in plain:
        raise ConfigError(f"elsewhere: no environment '{elsewhere.of}'; there are {', '.join(plain)}")
    return load_config(plain[elsewhere.of], {"seed": config.seed}, elsewhere.set)


# What D_0, the warm policy and its evaluation do not depend on; a start is made with the defaults of these.
_LATER: dict[str, tuple[str, ...]] = {
    "training": (),
    "signals": (),
    "evolution": ("mode", "balance", "floor", "contexts_per_round", "tasks_per_round"),
}


def _beginning(config: Config) -> dict[str, Any]:
    tree = _outcome(config)
    for section, keys in _LATER.items():
        part = tree.pop(section)
        if keys:
            tree[section] = {key: value for key, value in part.items() if key not in keys}
    for key in ("rounds", "evaluate_every"):
        tree.pop(key)
    return tree


def _outcome(config: Config) -> dict[str, Any]:
    """The config without its name, which changes nothing of what comes out."""
    tree = config.model_dump(mode="json")
    tree.pop("name")
    return tree
