"""Queries as vectors, for what asks how alike they are: diversity, maps, largest similarities."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from coevolve_lab.evolution import similarity
from coevolve_lab.evolution.sentences import sentence_embeddings

WORDS, MINILM = "words", "minilm"


def embed(
    texts: Sequence[str], model: str = MINILM, known: dict[str, NDArray[np.float64]] | None = None
) -> NDArray[np.float64]:
    """[len(texts), d], rows of unit length (zero for a text without words under "words").

    model: "minilm" (all-MiniLM-L6-v2, installed once, no network), "words" (counts of words and pairs of words,
    weighted by how rare they are among these very texts; no model, and blind to paraphrase), or a folder or hub name
    of any sentence-embedding model that transformers loads. Only vectors of one call can be compared under "words", and
    only vectors of one model ever. known: vectors that this model made before, by text; they are not made again, and
    those made now are added (not under "words"). Raises PrerequisiteError when the model is not there.
    """
    if model == WORDS:
        return _word_vectors(texts)
    known = {} if known is None else known
    unknown = [text for text in dict.fromkeys(texts) if text not in known]
    made = similarity.embed(unknown) if model == MINILM else sentence_embeddings(unknown, model)
    known.update(zip(unknown, made.astype(np.float64), strict=True))
    return np.array([known[text] for text in texts]).reshape(len(texts), made.shape[1])


def label(model: str) -> str:
    """What vectors of a model are called where they are shown, so that nobody compares those of different models."""
    names = {MINILM: "all-MiniLM-L6-v2 sentence embeddings", WORDS: "word vectors, which know no paraphrase"}
    return names.get(model, f"embeddings of {model}")


def is_sentence_model(model: str) -> bool:
    """Whether its cosines are of the kind that the paper's are."""
    return model != WORDS


def _word_vectors(texts: Sequence[str]) -> NDArray[np.float64]:
    found = [similarity.word_features(text) for text in texts]
    frequency = Counter(feature for features in found for feature in features)
    places = {feature: index for index, feature in enumerate(sorted(frequency))}
    rows = np.zeros((len(texts), max(1, len(places))))
    for row, features in zip(rows, found, strict=True):
        for feature, count in features.items():
            row[places[feature]] = count * (1 + math.log((1 + len(texts)) / (1 + frequency[feature])))
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(norms == 0, 1.0, norms))
