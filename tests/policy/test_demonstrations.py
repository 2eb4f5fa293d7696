"""Demonstrations are what they claim to be: skewed, wrong as often as configured, and otherwise right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from coevolve_lab.config import WarmStartConfig
from coevolve_lab.environments.base import ScriptedWorld
from coevolve_lab.policy.demonstrations import DONE, demonstrate, noise_of, ranked_tools
from tests.evolution.toy_world import TOOLS, read_call
from tests.loop_world import LoopToy

PLAIN = WarmStartConfig(demonstrations=300, drills=0.0, skew=0.0, max_calls=1)
CONFUSED = {"copy": "put", "put": "copy", "erase": "show", "show": "erase", "add": "reset", "reset": "add"}


class ConfusingToy(LoopToy):
    def confusable(self, tool: str) -> Sequence[str]:
        return [CONFUSED[tool]] if tool in CONFUSED else []


def _calls(world: ScriptedWorld, config: WarmStartConfig, seed: int = 0) -> list[str]:
    return [a.strip("[]") for d in demonstrate(world, config, seed) for a, _ in d.exchanges[:-1]]


def test_without_noise_every_call_is_what_the_query_asks_for() -> None:
    shown = demonstrate(LoopToy(), PLAIN, 0)
    assert len(shown) == 300
    assert all(d.planted == 0 and d.exchanges[-1] == (DONE, "") for d in shown)
    for one in shown:
        _, given = read_call(one.exchanges[0][0].strip("[]")) or ("", {})
        assert all(str(value) in one.query for value in given.values()), one
        assert not one.exchanges[0][1].startswith("error")


def test_same_seed_same_demonstrations() -> None:
    assert demonstrate(LoopToy(), PLAIN, 1) == demonstrate(LoopToy(), PLAIN, 1) != demonstrate(LoopToy(), PLAIN, 2)


def test_skew_shows_some_tools_far_more_often() -> None:
    even = Counter(c.split("(")[0] for c in _calls(LoopToy(), PLAIN))
    skewed = Counter(c.split("(")[0] for c in _calls(LoopToy(), PLAIN.model_copy(update={"skew": 2.0})))
    assert len(even) == sum(map(len, TOOLS.values()))
    assert max(even.values()) / min(even.values()) < 4 < 6 < max(skewed.values()) / min(skewed.values())


def test_planted_mistakes_are_as_many_as_configured_and_run() -> None:
    always = PLAIN.model_copy(update={"noise_common": 1.0, "noise_rare": 1.0})
    shown = demonstrate(ConfusingToy(), always, 0)
    wrong = [d for d in shown if d.planted]
    assert {d.exchanges[0][0].strip("[]").split("(")[0] for d in shown if not d.planted} == {"total"}  # nothing like it
    assert len(wrong) > 200
    assert not any(reply.startswith("error") for d in shown for _, reply in d.exchanges)
    half = demonstrate(ConfusingToy(), PLAIN.model_copy(update={"noise_common": 0.3, "noise_rare": 0.3}), 0)
    assert 0.15 < sum(d.planted for d in half) / len(half) < 0.4


def test_noise_rises_with_rank() -> None:
    config = WarmStartConfig(noise_common=0.1, noise_rare=0.7)
    assert [round(noise_of(rank, 4, config), 3) for rank in range(4)] == [0.1, 0.3, 0.5, 0.7]
    assert noise_of(0, 1, config) == 0.1
    assert ranked_tools(["a", "b", "c"], 3) == ranked_tools(["c", "b", "a"], 3)


def test_drills_rename_a_word_everywhere_alike() -> None:
    drilled = demonstrate(LoopToy(), PLAIN.model_copy(update={"drills": 1.0}), 0)
    plain_words = {w for d in demonstrate(LoopToy(), PLAIN, 0) for w in d.query.split()}
    renamed = 0
    for one in drilled:
        name, given = read_call(one.exchanges[0][0].strip("[]")) or ("", {})
        assert name in {tool for tools in TOOLS.values() for tool in tools}
        quoted = [value for value in given.values() if isinstance(value, str)]
        assert all(value in one.query for value in quoted)
        renamed += any(value not in plain_words for value in quoted)
    assert renamed > 0.6 * len(drilled)


def test_a_world_where_nothing_fits_ends() -> None:
    class Barren(LoopToy):
        def bind(self, *_: object) -> None:  # type: ignore[override]
            return None

    assert demonstrate(Barren(), PLAIN.model_copy(update={"demonstrations": 5}), 0) == []
