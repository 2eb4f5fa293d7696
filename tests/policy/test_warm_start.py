"""A warm policy is made once, found again, and made anew when anything that it depends on changes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from coevolve_lab.config import PolicyConfig, TinyModelConfig, WarmStartConfig
from coevolve_lab.errors import PolicyError
from coevolve_lab.policy.demonstrations import Demonstration
from coevolve_lab.policy.tiny import TinyChat, train_tokenizer
from coevolve_lab.policy.warm_start import examples, tiny_policy, warm_started
from tests.loop_world import LoopToy

CONFIG = PolicyConfig(
    model="tiny",
    tiny=TinyModelConfig(hidden=16, layers=1, heads=2, feed_forward=32, vocabulary=300),
    warm_start=WarmStartConfig(steps=8, batch=8, demonstrations=40, learning_rate=1e-2),
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COEVOLVE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_made_once_and_found_again(cache: Path) -> None:
    seen: list[tuple[int, int]] = []
    first, folder, found = warm_started(CONFIG, LoopToy(), {}, lambda step, steps, loss: seen.append((step, steps)))
    assert not found
    assert seen[-1] == (8, 8)
    assert folder.parent == cache
    second, again, found = warm_started(CONFIG, LoopToy(), {}, lambda *_: pytest.fail("trained again"))
    assert found
    assert again == folder
    assert [p.name for p in cache.iterdir()] == [folder.name]  # nothing half made is left
    mine, theirs = first.model.state_dict(), second.model.state_dict()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    assert second.version == 0


def test_everything_it_depends_on_is_in_its_name() -> None:
    other_warm = CONFIG.warm_start.model_copy(update={"skew": 0.5})
    generated, anew = LoopToy(), LoopToy()
    generated.fingerprint, anew.fingerprint = "of older code", "of newer code"
    variants = [
        (CONFIG, LoopToy(), {}),
        (CONFIG, generated, {}),
        (CONFIG, anew, {}),
        (CONFIG, LoopToy(), {"classes": ["TicketAPI"]}),
        (CONFIG.model_copy(update={"warm_start": other_warm}), LoopToy(), {}),
        (CONFIG.model_copy(update={"tiny": CONFIG.tiny.model_copy(update={"hidden": 8})}), LoopToy(), {}),
    ]
    assert len({warm_started(*variant)[1] for variant in variants}) == len(variants)


def test_made_twice_it_is_the_same(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, first, _ = warm_started(CONFIG, LoopToy(), {})
    monkeypatch.setenv("COEVOLVE_CACHE", str(tmp_path / "other"))
    _, second, _ = warm_started(CONFIG, LoopToy(), {})
    assert {p.name: p.read_bytes() for p in first.iterdir()} == {p.name: p.read_bytes() for p in second.iterdir()}


def test_an_interrupted_warm_start_is_made_again(cache: Path) -> None:
    def stop(step: int, *_: object) -> None:
        if step == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        warm_started(CONFIG, LoopToy(), {}, stop)
    assert not warm_started(CONFIG, LoopToy(), {})[2]


def test_only_actions_are_learned() -> None:
    chat = TinyChat(train_tokenizer(["show ant", "[show(key='ant')]", "ant is red", "done"], 300))
    one = Demonstration("show ant", (("[show(key='ant')]", "ant is red"), ("done", "")), 0)
    ((ids, mask),) = examples([one], chat)
    learned = [token for token, kept in zip(ids, mask, strict=True) if kept]
    assert learned == chat.action("[show(key='ant')]") + chat.action("done")
    rest = [token for token, kept in zip(ids, mask, strict=True) if not kept]
    assert rest == chat.prompt("show ant", []) + chat.reply("ant is red", from_user=False)


def test_a_folder_without_a_tiny_policy_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="no tiny policy"):
        tiny_policy(CONFIG, tmp_path)
    _, folder, _ = warm_started(CONFIG, LoopToy(), {})
    bigger = CONFIG.model_copy(update={"tiny": CONFIG.tiny.model_copy(update={"hidden": 32})})
    with pytest.raises(PolicyError, match="another model"):
        tiny_policy(bigger, folder)
