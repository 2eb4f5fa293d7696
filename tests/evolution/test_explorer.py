from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coevolve_lab.config import EvolutionConfig
from coevolve_lab.errors import ExplorerError
from coevolve_lab.evolution import Explorer, Occasion, ScriptedExplorer, explorer, make_explorer, register_explorer
from tests.evolution.toy_world import ToyWorld


def test_ids_and_draws_differ_by_round_and_call() -> None:
    first, again, later = Occasion(3, seed=1), Occasion(3, seed=1, call=1), Occasion(4, seed=1)
    assert [o.ident("ctx", 0) for o in (first, again, later)] == ["ctx-r3-0", "ctx-r3.1-0", "ctx-r4-0"]
    draws = {o.rng("walk", 5).random() for o in (first, again, later, Occasion(3, seed=2))}
    assert len(draws) == 4
    assert first.rng("walk", 5).random() == Occasion(3, seed=1).rng("walk", 5).random() != first.rng("walk", 6).random()


def test_draws_are_the_same_on_every_machine() -> None:
    assert Occasion(1, seed=2, call=3).rng("a").randrange(10**9) == 276_313_052


def test_explorers_are_found_by_name_and_can_be_added(
    world: ToyWorld, config: EvolutionConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explorer, "_FACTORIES", dict(explorer._FACTORIES))
    assert isinstance(make_explorer("scripted", world, config), ScriptedExplorer)
    register_explorer("mine", ScriptedExplorer)
    mine = make_explorer("mine", world, config)
    assert mine.name == "scripted"
    assert mine.model_calls() == []


def test_a_factory_gets_the_folder_that_the_run_keeps_for_it(
    world: ToyWorld, config: EvolutionConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given: list[Path | None] = []

    def factory(environment: Any, config: EvolutionConfig, folder: Path | None) -> Explorer:
        given.append(folder)
        return ScriptedExplorer(environment, config, folder)

    monkeypatch.setattr(explorer, "_FACTORIES", {})
    register_explorer("mine", factory)
    make_explorer("mine", world, config, tmp_path)
    make_explorer("mine", world, config)
    assert given == [tmp_path, None]


def test_unknown_explorers_are_named(world: ToyWorld, config: EvolutionConfig) -> None:
    with pytest.raises(ExplorerError, match="llm, scripted"):
        make_explorer("other", world, config)
