"""Queries as vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from coevolve_lab.errors import PrerequisiteError
from coevolve_lab.evaluation.embedding import embed, is_sentence_model, label
from coevolve_lab.evolution import minilm
from coevolve_lab.evolution.similarity import embed as minilm_embed

TEXTS = ["move report.txt into docs", "move report.txt into archive", "book a flight to Rome", ""]


def test_word_vectors_are_unit_rows_in_which_rare_words_weigh_more() -> None:
    rows = embed(TEXTS, "words")
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1, 1, 1, 0])
    alike = rows @ rows.T
    assert alike[0, 1] > 0.4 > alike[0, 2] + 0.35
    assert embed(["a b", "b a c"], "words").shape[0] == 2
    assert embed([], "words").shape[0] == 0


def test_a_model_that_is_not_there_is_named() -> None:
    with pytest.raises(PrerequisiteError, match="no sentence-embedding model 'no/such-model'"):
        embed(["a"], "no/such-model")


def test_what_may_be_laid_beside_the_paper_is_not_word_vectors() -> None:
    assert [is_sentence_model(name) for name in ("minilm", "words", "some/model")] == [True, False, True]
    assert "no paraphrase" in label("words")
    assert label("some/model") == "embeddings of some/model"


@pytest.mark.minilm
def test_a_folder_is_loaded_as_the_installed_model_is() -> None:
    folder: Path = minilm.model_folder()
    assert np.allclose(embed(TEXTS, str(folder)), minilm_embed(TEXTS), atol=1e-6)
    assert np.allclose(embed(TEXTS), embed(TEXTS))


@pytest.mark.minilm
def test_texts_of_any_length_keep_their_places_and_what_is_known_is_not_made_again() -> None:
    apart = np.concatenate([embed([text]) for text in TEXTS])
    assert np.allclose(embed(TEXTS), apart, atol=1e-6)
    known = {TEXTS[2]: np.full(384, 7.0)}
    rows = embed([*TEXTS, TEXTS[0]], known=known)
    assert np.array_equal(rows[2], np.full(384, 7.0))
    assert np.allclose(np.delete(rows, 2, axis=0), np.concatenate([apart[:2], apart[3:], apart[:1]]), atol=1e-6)
    assert set(known) == set(TEXTS)
