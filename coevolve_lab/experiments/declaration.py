"""One table or figure as a file: which methods with which settings, at which scale, with which seeds.

    # configs/experiments/table5.yaml
    title: Without each signal
    compares: table 5                       # of the paper; left out for a question of one's own
    arms:
      all: {method: coevolve}
      without_rare: {method: coevolve, set: {signals: {rare: null}}}
    outputs: [scores]

What runs that makes is in ``plan``.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from coevolve_lab import methods
from coevolve_lab.config import Config, Section, load_config, read_yaml
from coevolve_lab.errors import ConfigError

FOLDER = Path("configs/experiments")
SCALES = "scales.yaml"


class Elsewhere(Section):
    """Another world that an arm's last policy is evaluated in (table 6)."""

    of: str | None = None  # an environment of the scale; None: the arm's own
    set: dict[str, Any] = Field(default_factory=dict)  # changes of its config


class Arm(Section):
    """One row: a method under changed settings. Its name is the row's, so that published values find it."""

    method: str
    initial: dict[str, Any] = Field(default_factory=dict)  # settings that D_0 and the warm policy depend on
    set: dict[str, Any] = Field(default_factory=dict)  # settings from the first round on
    row: str | None = None  # where the score stands in the table, when not in the row of the arm's name
    column: str = "{}"  # and in which column; {} is the environment's
    only: tuple[str, ...] = ()  # played in these of the environments' columns; none: in all
    elsewhere: dict[str, Elsewhere] = Field(default_factory=dict)  # by the column that the score stands in


class Minutes(Section):
    """What a run took where we made it, on one otherwise idle core; None: nobody has made one."""

    start: float | None = None
    run: float | None = None


class Scale(Section):
    """How large: configs by environment (a column of the paper's tables), seeds, settings of all runs."""

    about: str
    environments: dict[str, Path]  # column -> config file; in the file of scales relative to that
    seeds: tuple[int, ...]
    set: dict[str, Any] = Field(default_factory=dict)
    splits: tuple[str, ...] = ()  # evaluated at the end, besides the config's own evaluation split
    minutes: Minutes = Minutes()

    @cached_property
    def configs(self) -> dict[str, Config]:
        """The environments' configs with the settings of all runs; read once. Raises ConfigError."""
        return {name: load_config(path, self.set) for name, path in self.environments.items()}


class Place(Section):
    """A column: one of the scale's environments, with changed settings if it is a special case of it."""

    of: str | None = None  # the environment; None: the one that the column is called
    initial: dict[str, Any] = Field(default_factory=dict)  # as those of an arm
    set: dict[str, Any] = Field(default_factory=dict)
    split: str | None = None  # what it reports; None: the config's evaluation split
    metric: Literal["tgc", "sgc"] = "tgc"  # of tasks, or of whole scenarios (AppWorld's two)


class Here(Section):
    """What one experiment changes about a scale; None: nothing."""

    seeds: tuple[int, ...] | None = None
    set: dict[str, Any] = Field(default_factory=dict)
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

    def place(self, arm: str, column: str) -> tuple[str, str]:
        """Row and column that an arm's score in a column stands in."""
        return self.arms[arm].row or arm, self.arms[arm].column.replace("{}", column)


def known(folder: Path = FOLDER) -> list[str]:
    """Names of the experiments that there are: the paper's tables and figures in its order, then all others."""
    return sorted((path.stem for path in folder.glob("*.yaml") if path.name != SCALES), key=_order)


def load(name: str, folder: Path = FOLDER) -> Experiment:
    """The experiment of that name, or in that file. Raises ConfigError naming the nearest, or the key that is wrong."""
    path = Path(name) if name.endswith((".yaml", ".yml")) else folder / f"{name}.yaml"
    if path.parent == folder and not path.is_file():
        there = known(folder)
        near = difflib.get_close_matches(name, there, n=1)
        hint = f"; did you mean '{near[0]}'?" if near else "" if there else ", which holds none: run this in a clone"
        raise ConfigError(f"no experiment '{name}' in {folder}{hint} (coevolve-lab reproduce --list names all)")
    experiment: Experiment = _validated(Experiment, {"name": path.stem, **read_yaml(path)}, path)
    for arm, settings in experiment.arms.items():
        try:
            methods.find(settings.method)
        except ConfigError as error:
            raise ConfigError(f"{path}: arm '{arm}': {error}") from None
    return experiment


def scales(folder: Path = FOLDER) -> dict[str, Scale]:
    """The scales by name."""
    path = folder / SCALES
    found: dict[str, Scale] = {name: _validated(Scale, tree, path, name) for name, tree in read_yaml(path).items()}
    return {
        name: scale.model_copy(update={"environments": {key: folder / at for key, at in scale.environments.items()}})
        for name, scale in found.items()
    }


def scale_called(name: str, offered: Mapping[str, Scale]) -> Scale:
    """The scale of that name. Raises ConfigError naming those that there are."""
    if name not in offered:
        raise ConfigError(f"no scale '{name}'; there are {', '.join(offered)}")
    return offered[name]


def _order(name: str) -> tuple[int, int, str]:
    found = re.fullmatch(r"(table|figure)(\d+)[a-h]?", name)
    return (["table", "figure"].index(found[1]), int(found[2]), name) if found else (2, 0, name)


def _validated(kind: Any, tree: Any, path: Path, part: str = "") -> Any:
    try:
        return kind.model_validate(tree)
    except ValidationError as error:
        problems = "; ".join(
            f"'{'.'.join(map(str, (*([part] if part else []), *problem['loc'])))}': {problem['msg']}"
            for problem in error.errors()
        )
        raise ConfigError(f"{path}: {problems}") from None
