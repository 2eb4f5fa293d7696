"""Every table and figure is listed, and what it says can be called can be."""

from __future__ import annotations

import importlib

import pytest

from coevolve_lab import paper
from coevolve_lab.paper.catalogue import ENTRIES

MAKERS = sorted({maker for entry in ENTRIES for maker in entry.makers})


def test_everything_published_is_listed_once() -> None:
    listed = paper.catalogue()
    published = {name.replace(" ", "") for name in paper.sources()["name"]}
    assert published | {"figure3c"} == set(listed["name"])
    assert listed["name"].is_unique().all()
    assert listed.filter(listed["published"] == 0)["name"].to_list() == ["figure3c"]


@pytest.mark.parametrize("maker", MAKERS)
def test_every_maker_is_there(maker: str) -> None:
    module, _, name = maker.partition(":")
    assert callable(getattr(importlib.import_module(module), name))


def test_states_follow_from_makers() -> None:
    states = dict(paper.catalogue().select("name", "state").iter_rows())
    assert (states["table9"], states["table5"], states["table8"], states["figure4"]) == (
        "settings",
        "table",
        "figure",
        "figure",
    )
