"""One table or figure as a file: which methods with which settings, at which scale, with which seeds.

    # configs/experiments/table5.yaml
    title: Without each signal
    compares: table 5                       # of the paper; left out for a question of one's own
    arms:
      all: {method: coevolve}
      without_rare: {method: coevolve, set: {signals: {rare: null}}}
    outputs: [scores]

``expand`` makes of it runs to play. A run's folder is named after the fingerprint of its whole config, so that two
experiments share what is the same and never mix what is not. All arms with the same ``initial`` settings begin as forks
of one start: the same D_0, the same warm policy, the same evaluation before training.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, ValidationError

from coevolve_lab import methods
from coevolve_lab.config import Config, Section, fingerprint, load_config
from coevolve_lab.errors import ConfigError

FOLDER = Path("configs/experiments")
SCALES = "scales.yaml"


class Elsewhere(Section):
    """Another world that an arm's last policy is evaluated in (table 6)."""

    set: dict[str, Any]  # changes of the config that say which world


class Arm(Section):
    """One row: a method under changed settings. Its name is the row's, so that published values find it."""

    method: str
    initial: dict[str, Any] = Field(default_factory=dict)  # settings that D_0 and the warm policy depend on
    set: dict[str, Any] = Field(default_factory=dict)  # settings from the first round on
    row: str | None = None  # where the score stands in the table, when not in the row of the arm's name
    column: str | None = None  # and not in the column of the environment
    elsewhere: dict[str, Elsewhere] = Field(default_factory=dict)  # by the column that the score stands in


class Minutes(Section):
    """What a run took where we made it, on one otherwise idle core; None: nobody has made one."""

    start: float | None = None
    run: float | None = None


class Scale(Section):
    """How large: configs by environment (a column of the paper's tables), seeds, settings of all runs."""

    about: str
    environments: dict[str, str]  # column -> config file, beside scales.yaml or relative to it
    seeds: tuple[int, ...]
    set: dict[str, Any] = Field(default_factory=dict)
    splits: tuple[str, ...] = ()  # evaluated at the end, besides the config's own evaluation split
    minutes: Minutes = Minutes()


class Place(Section):
    """A column: one of the scale's environments, with changed settings if it is a special case of it."""

    of: str | None = None  # the environment; None: the one that the column is called
    initial: dict[str, Any] = Field(default_factory=dict)  # as those of an arm
    set: dict[str, Any] = Field(default_factory=dict)


class Here(Section):
    """What one experiment changes about a scale."""

    seeds: tuple[int, ...] | None = None
    set: dict[str, Any] | None = None
    splits: tuple[str, ...] | None = None
    arms: tuple[str, ...] | None = None  # only these


class Experiment(Section):
    """A file of ``configs/experiments``. outputs: names of ``outputs.OUTPUTS``."""

    name: str
    title: str
    compares: str | None = Field(None, pattern=r"^(table \d+|figure \d+[a-h]?)$")
    environments: dict[str, Place] = Field(default_factory=dict)  # columns; none: all environments of the scale
    arms: dict[str, Arm] = Field(min_length=1)
    scales: dict[str, Here] = Field(default_factory=dict)  # by the scale's name
    own_warm_start: bool = False  # each seed warms up a policy of its own, so that errors over seeds count that in
    outputs: tuple[str, ...] = ("scores",)
    notes: str = ""  # what a reader should know, printed with the results


@dataclass(frozen=True)
class Start:
    """D_0, the warm policy and its evaluation: what the arms of one seed share."""

    key: str
    config: Config


@dataclass(frozen=True)
class Cell:
    """One run: an arm in a column with a seed. splits: those that its last policy is evaluated on."""

    arm: str
    column: str
    environment: str
    seed: int
    method: str
    start: Start
    config: Config
    splits: tuple[str, ...]
    elsewhere: tuple[tuple[str, Config], ...] = ()

    @property
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


@dataclass(frozen=True)
class Plan:
    """An experiment at a scale: the runs, in the order in which they are played (seed by seed)."""

    experiment: Experiment
    scale: str
    about: str
    minutes: Minutes
    cells: tuple[Cell, ...]

    @property
    def starts(self) -> tuple[Start, ...]:
        return tuple({cell.start.key: cell.start for cell in self.cells}.values())

    @property
    def side_by_side(self) -> int:
        """How many runs this machine's cores can take at once; one where the config leaves torch all of them."""
        threads = max((cell.config.threads or 0 for cell in self.cells), default=0)
        return max(1, len(os.sched_getaffinity(0)) // threads) if threads else 1

    @property
    def runs(self) -> tuple[Cell, ...]:
        """The different runs: arms that are the same run but for their place in the table are one, evaluated on all
        that any of them asks for."""
        found: dict[str, Cell] = {}
        for cell in self.cells:
            one = found.get(cell.key, cell)
            worlds = {world_name(*world): world for world in (*one.elsewhere, *cell.elsewhere)}
            splits = tuple(dict.fromkeys((*one.splits, *cell.splits)))
            found[cell.key] = replace(one, splits=splits, elsewhere=tuple(worlds.values()))
        return tuple(found.values())


def world_name(column: str, config: Config) -> str:
    """How another world is on record: its column, and which world it was."""
    return f"{column}-{fingerprint(config.environment.model_dump(mode='json'))}"


def known(folder: Path = FOLDER) -> list[str]:
    """Names of the experiments that there are, tables and figures in the paper's order."""
    return sorted((p.stem for p in folder.glob("*.yaml") if p.name != SCALES), key=_order)


def load(name: str, folder: Path = FOLDER) -> Experiment:
    """The experiment of that name, or in that file. Raises ConfigError naming the nearest, or the key that is wrong."""
    path = Path(name) if name.endswith((".yaml", ".yml")) else folder / f"{name}.yaml"
    if not path.is_file():
        near = difflib.get_close_matches(name, known(folder), n=1, cutoff=0.0)
        hint = f"; did you mean '{near[0]}'?" if near else f": {folder} holds none; run this in a clone of the project"
        raise ConfigError(f"no experiment '{name}'{hint} (coevolve-lab reproduce --list names all)")
    tree = _mapping(path)
    made = _validated(Experiment, {"name": path.stem, **tree}, path)
    for arm, settings in made.arms.items():
        try:
            methods.find(settings.method)
        except ConfigError as error:
            raise ConfigError(f"{path}: arm '{arm}': {error}") from None
    places = [(settings.row or arm, settings.column) for arm, settings in made.arms.items()]
    if twice := [place for place in places if places.count(place) > 1]:
        raise ConfigError(
            f"{path}: two arms stand in row '{twice[0][0]}' of one column; give one another row or column"
        )
    return made


def scales(folder: Path = FOLDER) -> dict[str, Scale]:
    """The scales by name."""
    path = folder / SCALES
    return {name: _validated(Scale, tree, path, name) for name, tree in _mapping(path).items()}


def expand(experiment: Experiment, scale: str, folder: Path = FOLDER, seeds: Sequence[int] | None = None) -> Plan:
    """The runs of an experiment. Raises ConfigError for an unknown scale, arm or setting, before anything is played."""
    offered = scales(folder)
    if scale not in offered:
        raise ConfigError(f"no scale '{scale}'; there are {', '.join(offered)}")
    size, here = offered[scale], experiment.scales.get(scale, Here())
    unknown = [name for name in here.arms or () if name not in experiment.arms]
    if unknown:
        raise ConfigError(
            f"{experiment.name}: scale '{scale}' names arm '{unknown[0]}'; arms: {', '.join(experiment.arms)}"
        )
    if strange := [name for name in experiment.scales if name not in offered]:
        raise ConfigError(f"{experiment.name}: no scale '{strange[0]}'; there are {', '.join(offered)}")
    columns = experiment.environments or {name: Place() for name in size.environments}
    present = {name: place for name, place in columns.items() if (place.of or name) in size.environments}
    if not present:
        wanted = ", ".join(place.of or name for name, place in columns.items())
        raise ConfigError(
            f"{experiment.name} is about {wanted}, and scale '{scale}' has {', '.join(size.environments)}"
        )
    plain = {name: load_config(folder / path, size.set, here.set or {}) for name, path in size.environments.items()}
    splits = size.splits if here.splits is None else here.splits
    cells = [
        _cell(experiment, plain[place.of or column], splits, column, arm, seed)
        for seed in dict.fromkeys(seeds or here.seeds or size.seeds)
        for column, place in present.items()
        for arm in (here.arms or experiment.arms)
    ]
    return Plan(experiment, scale, size.about, size.minutes, tuple(cells))


def _cell(experiment: Experiment, plain: Config, splits: tuple[str, ...], column: str, name: str, seed: int) -> Cell:
    arm, place = experiment.arms[name], experiment.environments.get(column, Place())
    environment, method = place.of or column, methods.find(arm.method)
    of_seed: dict[str, Any] = {"seed": seed}
    if experiment.own_warm_start:
        of_seed["policy"] = {"warm_start": {"seed": seed}}
    try:
        begun = load_config(plain, of_seed, place.initial, arm.initial)
        config = load_config(begun, method.changes, place.set, arm.set)
        elsewhere = tuple((other, load_config(config, change.set)) for other, change in arm.elsewhere.items())
    except ConfigError as error:
        raise ConfigError(f"{experiment.name}, arm '{name}': {error}") from None
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
    asked = tuple(dict.fromkeys((config.environment.evaluation_split, *splits)))
    return Cell(name, column, environment, seed, method.name, start, config, asked, elsewhere)


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


def _order(name: str) -> tuple[int, str, int, str]:
    kind = name.rstrip("abcdefgh").rstrip("0123456789")
    number = "".join(ch for ch in name if ch.isdigit())
    return ({"table": 0, "figure": 1}.get(kind, 2), kind, int(number or 0), name)


def _mapping(path: Path) -> dict[str, Any]:
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"no file {path}: run this in a clone of the project") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text: {error}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not valid YAML: {error}") from None
    if not isinstance(tree, dict):
        raise ConfigError(f"{path} must hold a mapping, not {type(tree).__name__}")
    return tree


def _validated(kind: Any, tree: Any, path: Path, part: str = "") -> Any:
    try:
        return kind.model_validate(tree)
    except ValidationError as error:
        problems = "; ".join(
            f"'{'.'.join(map(str, (*([part] if part else []), *problem['loc'])))}': {problem['msg']}"
            for problem in error.errors()
        )
        raise ConfigError(f"{path}: {problems}") from None
