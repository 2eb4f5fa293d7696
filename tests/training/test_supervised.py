from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

from coevolve_lab.errors import PolicyError
from coevolve_lab.training import supervised_steps

Make = Callable[..., Any]


def _examples(count: int = 60) -> list[tuple[list[int], list[int]]]:
    """The answer is the first prompt token, repeated; everything else is noise."""
    rng = random.Random(0)
    made = []
    for _ in range(count):
        prompt = [rng.randrange(2, 10), *(rng.randrange(10, 97) for _ in range(rng.randint(1, 9)))]
        made.append(([*prompt, prompt[0], prompt[0], 1], [0] * len(prompt) + [1, 1, 1]))
    return made


def test_it_learns_the_marked_tokens_and_is_the_same_under_a_seed(make_model: Make) -> None:
    runs = []
    for _ in range(2):
        model = make_model()
        seen: list[tuple[int, int]] = []
        losses = supervised_steps(
            model, _examples(), steps=40, batch=16, learning_rate=1e-2, seed=3,
            progress=lambda step, steps, loss, seen=seen: seen.append((step, steps)),
        )  # fmt: skip
        assert seen == [(step, 40) for step in range(1, 41)]
        runs.append((losses, [p.detach().clone() for p in model.parameters()]))
    assert runs[0][0] == runs[1][0]
    assert all(torch.equal(a, b) for a, b in zip(runs[0][1], runs[1][1], strict=True))
    assert runs[0][0][-1] < 0.5 * runs[0][0][0]
    other = supervised_steps(make_model(), _examples(), steps=2, batch=16, learning_rate=1e-2, seed=4)
    assert other != runs[0][0][:2]


def test_the_loss_is_the_mean_over_marked_tokens_whatever_the_padding(make_model: Make) -> None:
    model = make_model()
    examples = _examples(7)
    terms = []
    for ids, mask in examples:
        logp = model(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)
        terms += [-logp[at - 1, ids[at]] for at in range(1, len(ids)) if mask[at]]
    (loss,) = supervised_steps(model, examples, steps=1, batch=7, learning_rate=1e-3, seed=0)
    assert loss == pytest.approx(torch.stack(terms).mean().item(), abs=1e-5)


def test_examples_with_nothing_to_learn_are_left_out_or_refused(make_model: Make) -> None:
    blank = ([5, 6, 7], [1, 0, 0])
    model = make_model()
    losses = supervised_steps(model, [blank, *_examples(3)], steps=2, batch=48, learning_rate=1e-3, seed=0)
    assert losses == supervised_steps(make_model(), _examples(3), steps=2, batch=48, learning_rate=1e-3, seed=0)
    with pytest.raises(PolicyError, match="masks"):
        supervised_steps(model, [blank], steps=1, batch=4, learning_rate=1e-3, seed=0)
    assert supervised_steps(model, [], steps=0, batch=4, learning_rate=1e-3, seed=0) == []
