"""How alike two queries are: cosine in [0, 1] on words (no model, milliseconds) or on MiniLM sentence embeddings."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, Protocol

from coevolve_lab.errors import ConfigError
from coevolve_lab.evolution.minilm import model_folder
from coevolve_lab.evolution.sentences import sentence_embeddings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_WORD = re.compile(r"[^\W_]+(?:[._@:/+\-][^\W_]+|_+[^\W_]+)*")  # file names, numbers, dates and handles stay whole

_SMALL_TEXT = """a an and are at be by can could for from i in into is it me my now of on please so that the them then
this to us was we with would you your"""
_SMALL_WORDS = frozenset(_SMALL_TEXT.split())
_SMALL_WEIGHT = 0.1
_PAIR_WEIGHT = 0.5


class Nearest(NamedTuple):
    """Largest similarity of a query to the references, and the place of that reference (-1 if there are none)."""

    similarity: float
    reference: int


class Similarity(Protocol):
    """Compares queries with references that were given when it was made."""

    def nearest(self, queries: Sequence[str]) -> list[Nearest]: ...


class Bounds(NamedTuple):
    """A half-open interval of similarities."""

    least: float
    below: float


# The paper gives the mean similarity of each setting (table 13: low 0.3843, medium 0.5328, high 0.6473) and no bounds;
# these are half way between the means. "mixed" is drawn from all three. They hold for sentence embeddings: on "words",
# where a template's words weigh little, next to all drafts would be low.
BANDS = {
    "low": Bounds(0.0, 0.459),
    "medium": Bounds(0.459, 0.59),
    "high": Bounds(0.59, math.inf),
    "mixed": Bounds(0.0, math.inf),
}


def in_band(similarity: float, band: str) -> bool:
    """Whether a draft's largest similarity to an evaluation task is in a band of table 13 ("low", "medium", "high",
    "mixed"). Raises ConfigError for another name."""
    if band not in BANDS:
        raise ConfigError(f"no similarity band '{band}'; the bands are {', '.join(BANDS)}")
    return BANDS[band].least <= similarity < BANDS[band].below


def make_similarity(name: str, references: Sequence[str]) -> Similarity:
    """The backend ``name`` ("words" or "minilm"). Raises ConfigError for another name, PrerequisiteError if the model
    is not installed."""
    if name == "words":
        return WordSimilarity(references)
    if name == "minilm":
        return MiniLMSimilarity(references)
    raise ConfigError(f"no similarity '{name}'; use 'words' or 'minilm'")


class WordSimilarity:
    """Cosine of weighted word counts: every word and every pair of neighbouring content words, rare ones weighing more.

    Templates are common, so their words weigh little; values (names, numbers) are rare and weigh much. Hence the same
    request about other values stays well below 1, and the same values in another order too, while politeness and other
    small words change next to nothing. Paraphrases need the embeddings.
    """

    def __init__(self, references: Sequence[str]) -> None:
        features = [word_features(text) for text in references]
        frequency = Counter(feature for found in features for feature in found)
        self._rarity = {f: 1 + math.log((1 + len(features)) / (1 + n)) for f, n in frequency.items()}
        self._unseen = 1 + math.log(1 + len(features))
        self._postings: dict[str, list[tuple[int, float]]] = {}
        for index, found in enumerate(features):
            for feature, weight in self._unit(found).items():
                self._postings.setdefault(feature, []).append((index, weight))

    def nearest(self, queries: Sequence[str]) -> list[Nearest]:
        """One answer per query; a query without words is like nothing."""
        return [self._nearest(word_features(query)) for query in queries]

    def _nearest(self, features: dict[str, float]) -> Nearest:
        totals: dict[int, float] = {}
        for feature, weight in self._unit(features).items():
            for index, other in self._postings.get(feature, ()):
                totals[index] = totals.get(index, 0.0) + weight * other
        if not totals:
            return Nearest(0.0, -1)
        index = max(totals, key=lambda i: (totals[i], -i))
        return Nearest(min(totals[index], 1.0), index)

    def _unit(self, features: dict[str, float]) -> dict[str, float]:
        weighted = {f: n * self._rarity.get(f, self._unseen) for f, n in features.items()}
        norm = math.sqrt(sum(w * w for w in weighted.values()))
        return {f: w / norm for f, w in weighted.items()}


def word_features(text: str) -> dict[str, float]:
    """How much of what is in a text: its words and its pairs of neighbouring content words."""
    words = _WORD.findall(text.lower())
    content = [word for word in words if word not in _SMALL_WORDS]
    features = {word: n * (_SMALL_WEIGHT if word in _SMALL_WORDS else 1.0) for word, n in Counter(words).items()}
    return features | {pair: n * _PAIR_WEIGHT for pair, n in Counter(map(" ".join, pairwise(content))).items()}


class MiniLMSimilarity:
    """Cosine of all-MiniLM-L6-v2 embeddings, the kind of measure behind the paper's figure 5."""

    def __init__(self, references: Sequence[str]) -> None:
        self._references = embed(references)

    def nearest(self, queries: Sequence[str]) -> list[Nearest]:
        if not queries or not len(self._references):
            return [Nearest(0.0, -1)] * len(queries)
        cosines = embed(queries) @ self._references.T  # [queries, references]
        best = cosines.argmax(axis=1)
        return [Nearest(float(min(max(row[i], 0.0), 1.0)), int(i)) for row, i in zip(cosines, best, strict=True)]


def embed(texts: Sequence[str], batch: int = 64) -> NDArray[np.float32]:
    """Sentence embeddings of all-MiniLM-L6-v2: float32 [len(texts), 384], unit length, mean over token states.

    Raises PrerequisiteError with the command to run when the model, torch or transformers is not installed.
    """
    return sentence_embeddings(texts, str(model_folder()), batch)
