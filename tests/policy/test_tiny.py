"""The tiny policy's vocabulary, model and conversations."""

from __future__ import annotations

import pytest
import torch

from coevolve_lab.config import TinyModelConfig
from coevolve_lab.policy.tiny import SPECIALS, TinyChat, build_model, train_tokenizer

CORPUS = ["move 'report.txt' into 'archive'", "[mv(source='report.txt', destination='archive')]", "done"]
SMALL = TinyModelConfig(hidden=32, layers=1, heads=2, feed_forward=64)


@pytest.mark.parametrize(
    "text", ["", "plain words", "naïve 漢字 \x00 \t\n", "<|end|><|agent|>", "a" * 5000, "{'x': [1]}"]
)
def test_any_text_comes_back_and_no_text_is_a_special_token(text: str) -> None:
    chat = TinyChat(train_tokenizer(CORPUS, 400))
    ids = chat.action(text)
    assert chat.text(ids) == text
    assert ids[-1] == chat.end_ids[0]
    assert min(ids[:-1], default=len(SPECIALS)) >= len(SPECIALS)


def test_a_conversation_is_roles_and_text() -> None:
    chat = TinyChat(train_tokenizer(CORPUS, 400))
    pad, end, user, tool, agent = range(5)
    assert (chat.pad_id, chat.end_ids) == (pad, (end,))
    prompt = chat.prompt("move it", [{"function": {"name": "mv"}}])
    assert (prompt[0], prompt[-1]) == (user, agent)
    assert prompt == chat.prompt("move it", [])  # it is not told the tools
    assert [chat.reply("ok", from_user)[0] for from_user in (True, False)] == [user, tool]


def test_the_vocabulary_has_the_size_asked_for_and_is_the_same_each_time() -> None:
    first, second = (train_tokenizer(CORPUS * 3, 300) for _ in range(2))
    assert first.to_str() == second.to_str()
    assert len(SPECIALS) + 256 <= first.get_vocab_size() <= 300


def test_digits_stand_alone() -> None:
    tokenizer = train_tokenizer(["1234 1234 1234 1234"] * 9, 400)
    assert len(tokenizer.encode("1234", add_special_tokens=False).ids) == 4


def test_same_seed_same_weights_and_the_callers_draws_are_left_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first, second, other = (build_model(SMALL, 300, seed) for seed in (1, 1, 2))
    assert torch.equal(torch.rand(3), expected)
    pairs = list(zip(first.parameters(), second.parameters(), other.parameters(), strict=True))
    assert all(torch.equal(a, b) for a, b, _ in pairs)
    assert any(not torch.equal(a, c) for a, _, c in pairs)


def test_the_default_size_is_under_a_million_parameters() -> None:
    model = build_model(TinyModelConfig(), 1000, 0)
    assert model.num_parameters() < 1e6
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert {p.dtype for p in model.parameters()} == {torch.float32}
