from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import yaml

from coevolve_lab.environments.bfcl import api, binding, names, package, worlds
from coevolve_lab.environments.bfcl.calls import parse_call
from coevolve_lab.errors import ConfigError

POOLS: tuple[names.Pool, ...] = ("train", "held_out")


def _texts(value: object) -> set[str]:
    """Every string in a JSON-like value, keys included, split into lower-case words and stems."""
    if isinstance(value, dict):
        return set().union(*map(_texts, value), *map(_texts, value.values()))
    if isinstance(value, list):
        return set().union(*map(_texts, value))
    return set(value.lower().replace(".", " ").split()) if isinstance(value, str) else set()


def test_the_pools_share_no_name_and_are_diverse() -> None:
    rows = yaml.safe_load(Path(names.__file__).with_name("names.yaml").read_text(encoding="utf-8"))
    train, held_out = (_texts([list(kind) for kind in rows[pool].values()]) for pool in POOLS)
    assert not train & held_out
    for pool in POOLS:
        assert len(set(rows[pool]["nouns"])) >= 60
        for kind, values in rows[pool].items():
            assert len(values) == len(set(values)), (pool, kind)
        assert not _texts(list(rows[pool].values())) & {"then", "and", "to", "with", "in", "of", "from", "the"}


def test_ids_of_the_two_pools_never_meet() -> None:
    rng = random.Random(0)
    for low, high in ((10, 99), (100, 999), (10**7, 10**8), (1, 3), (7, 9)):
        drawn = {pool: {names.names(pool).number(rng, low, high) for _ in range(300)} for pool in POOLS}
        assert not drawn["train"] & drawn["held_out"]
        assert all(low <= value <= high for values in drawn.values() for value in values)


def test_start_states_of_the_two_pools_share_no_name() -> None:
    rng = random.Random(1)
    seen = {}
    for pool in POOLS:
        drawn = names.names(pool)
        own = set(drawn.nouns + drawn.words + drawn.people + drawn.surnames) | {s.lower() for s in drawn.symbols}
        starts = [worlds.random_start(pool, api.CLASSES, rng)["initial_config"] for _ in range(60)]
        seen[pool] = _texts(starts)
        assert len(seen[pool] & own) > 150
    foreign = names.names("held_out")
    assert not seen["train"] & {*foreign.nouns, *foreign.words, *foreign.people, *foreign.surnames}
    ids = {pool: {text for text in words if text.isdigit() and len(text) > 3} for pool, words in seen.items()}
    assert ids["train"]
    assert not ids["train"] & ids["held_out"]


@pytest.mark.parametrize("pool", POOLS)
def test_starts_are_json_reproducible_and_varied(pool: names.Pool) -> None:
    starts = [worlds.random_start(pool, api.CLASSES, random.Random(seed)) for seed in range(40)]
    again = [worlds.random_start(pool, api.CLASSES, random.Random(seed)) for seed in range(40)]
    assert starts == again == json.loads(json.dumps(starts))
    assert all(start["pool"] == pool and start["involved_classes"] == list(api.CLASSES) for start in starts)
    for name in api.CLASSES:
        configs = {json.dumps(start["initial_config"][name]) for start in starts}
        assert len(configs) == (1 if name == "MathAPI" else 40)


def test_no_start_state_is_an_official_one() -> None:
    lines = (package.activate() / "BFCL_v4_multi_turn_base.json").read_text(encoding="utf-8").splitlines()
    official = {
        (name, json.dumps(config, sort_keys=True))
        for line in lines
        for name, config in json.loads(line)["initial_config"].items()
        if name != "MathAPI"  # has no state
    }
    assert len(official) > 100
    rng = random.Random(2)
    for _ in range(100):
        start = worlds.random_start(rng.choice(POOLS), api.CLASSES, rng)
        for name, config in start["initial_config"].items():
            assert (name, json.dumps(config, sort_keys=True)) not in official


@pytest.mark.parametrize("name", api.CLASSES)
def test_every_public_method_is_covered_or_excluded_for_a_reason(name: str) -> None:
    left_out = set(api.public_methods(name)) - set(worlds.tool_names({"involved_classes": [name]}))
    assert left_out <= set(binding.NEVER_BOUND)
    assert set(worlds.tool_names({"involved_classes": [name]})) <= set(api.public_methods(name))


def test_what_is_never_bound_can_indeed_never_succeed() -> None:
    rng = random.Random(3)
    for tool in binding.NEVER_BOUND:
        for _ in range(20):
            apis = api.load_apis(worlds.random_start("train", api.CLASSES, rng))
            assert apis.execute(parse_call(f"{tool}()")).failed


def test_tool_names_respect_classes_and_exclusions() -> None:
    start = worlds.random_start("train", ["TicketAPI", "MathAPI"], random.Random(0))
    tools = worlds.tool_names(start)
    assert "get_ticket" in tools
    assert "mv" not in tools
    assert set(tools) - set(worlds.tool_names({**start, "excluded_function": ["get_ticket", "mean"]})) == {
        "get_ticket",
        "mean",
    }


@pytest.mark.parametrize("name", api.CLASSES)
def test_replaying_the_same_calls_gives_the_same_state_and_results(name: str) -> None:
    rng = random.Random(4)
    for _ in range(60):
        start = worlds.random_start(rng.choice(POOLS), [name], rng)
        apis = api.load_apis(start)
        calls, results = [], []
        for _ in range(3):
            tools = list(worlds.tool_names(start))
            rng.shuffle(tools)
            call = next(found for tool in tools if (found := binding.bind(apis, tool, rng, start["pool"])))
            calls.append(parse_call(call))
            results.append(apis.execute(calls[-1]).text)
        replay = api.load_apis(json.loads(json.dumps(start)))
        assert [replay.execute(call).text for call in calls] == results
        assert api.state(replay) == api.state(apis)


def test_unknown_pools_and_classes_are_refused() -> None:
    with pytest.raises(ConfigError, match="GorillaFileSystem"):
        worlds.random_start("train", ["NoSuchAPI"], random.Random(0))
    with pytest.raises(ConfigError, match="held_out"):
        worlds.random_start("test", ["MathAPI"], random.Random(0))  # type: ignore[arg-type]
