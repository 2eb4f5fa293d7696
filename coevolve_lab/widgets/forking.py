"""What if? A small form that forks a run: at which round, into which folder, with which settings changed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ipywidgets as W
import yaml

from coevolve_lab.config import load_config
from coevolve_lab.errors import ConfigError
from coevolve_lab.store import copy_until, free_folder
from coevolve_lab.widgets import markup, view

MOST_SETTINGS, MOST_BRACKETS = 4000, 100  # characters; open brackets: YAML reads nested ones in quadratic time
_EXAMPLE = "signals: {rare: null}"


class Fork(view.View):
    """The form; ``made_dir`` is the folder of the last fork that it made.

    run: a CoEvolve, a RunReader or a run folder. Only what is committed is read, so the run may go on meanwhile, here
    or in the background; it is neither opened nor locked.
    """

    def __init__(self, run: Any) -> None:
        super().__init__()
        self._run_dir, self.made_dir = view.reader_of(run).run_dir, Path()
        wide: dict[str, Any] = {"layout": {"width": "560px"}, "style": {"description_width": "90px"}}
        self.round = W.Dropdown(description="after round", style=wide["style"], layout={"width": "190px"})
        self.folder = W.Text(description="folder", **wide)
        self.changes = W.Textarea(description="changes", placeholder=f"as YAML, such as {_EXAMPLE}", rows=3, **wide)
        self.make = view.button("make the fork", "copy the run up to that round", "coevolve-make-fork", self._make)
        self.make.layout.align_self, self.make.layout.margin = "flex-start", "2px 0 4px 98px"
        self.made = view.html()
        for name, widget in (("round", self.round), ("folder", self.folder), ("changes", self.changes)):
            widget.add_class(f"coevolve-fork-{name}")
        self.fill([self.round, self.folder, self.changes, self.make, self.made])
        self.refresh()

    def refresh(self) -> None:
        """Offer the rounds that are committed by now, the last one first, and a folder that is free."""
        with self.guarded():
            rounds = self._rounds()
            self.round.options = rounds
            self.round.value = rounds[0] if rounds else None
            self.folder.value = free_folder(self._run_dir).name
            self.make.disabled = not rounds

    def plain(self) -> tuple[str, str]:
        text = f"{self._run_dir} can be forked after round " + (", ".join(map(str, self._rounds()[::-1])) or "-")
        return text, markup.text(text)

    def _rounds(self) -> list[int]:
        return sorted(view.reader_of(self._run_dir).manifests(), reverse=True)

    def _make(self) -> None:
        self.made.value = markup.wrap("")
        with self.guarded():
            reader, wanted = view.reader_of(self._run_dir), self.folder.value.strip()
            target = self._run_dir.parent / Path(wanted).expanduser() if wanted else free_folder(self._run_dir)
            config = load_config(reader.config, **settings(self.changes.value))
            # Not CoEvolve.open(...).fork(...): opening a run again takes it from the object that may be driving it.
            self.made_dir = copy_until(self._run_dir, target, self.round.value, config)
            self.folder.value = free_folder(self._run_dir).name
            line = f"other = CoEvolve.open({str(self.made_dir)!r})"
            self.made.value = markup.wrap(
                f"{markup.tag('made', good=True)} {markup.code(self.made_dir)}; open it and let it go on with"
                + markup.block(f"{line}\nother.start()  # or other.rounds() here")
            )


def settings(text: str) -> Mapping[str, Any]:
    """Changed settings as someone typed them; nothing typed is no change. Raises ConfigError for what is no mapping."""
    if len(text) > MOST_SETTINGS:
        raise ConfigError(f"the changes are {len(text):,} characters long; at most {MOST_SETTINGS:,} are read")
    if text.count("[") + text.count("{") > MOST_BRACKETS:
        raise ConfigError(f"the changes open more than {MOST_BRACKETS} brackets; make a config file of them instead")
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.SafeLoader)):
            raise ConfigError("write the changes without *aliases: a few of them can stand for gigabytes")
        tree = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"the changes are not valid YAML: {error}") from None
    if tree is None:
        return {}
    if not isinstance(tree, dict) or not all(isinstance(key, str) for key in tree):
        raise ConfigError(f"write the changes as settings with their values, such as {_EXAMPLE}")
    return tree
