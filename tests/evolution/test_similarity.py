from __future__ import annotations

import pytest

from coevolve_lab.errors import ConfigError
from coevolve_lab.evolution.similarity import BANDS, MiniLMSimilarity, WordSimilarity, embed, in_band, make_similarity

NAMES = ["report.txt", "notes.md", "budget_2024.csv", "alice", "plan.doc", "archive", "docs", "summary.pdf"]
REFERENCES = [f"move {a} into {b}" for a in NAMES for b in NAMES if a != b] + ["list all users of the workspace"]


def words(query: str) -> float:
    return WordSimilarity(REFERENCES).nearest([query])[0].similarity


def test_the_same_request_is_1_and_names_its_reference() -> None:
    found = WordSimilarity(REFERENCES).nearest(["Move  notes.md into archive!"])[0]
    assert found.similarity == pytest.approx(1)
    assert REFERENCES[found.reference] == "move notes.md into archive"


@pytest.mark.parametrize(
    "query",
    ["move image.png into photos", "move letter.txt into bob", "move report.txt into photos", "copy a.b to c.d"],
)
def test_one_template_with_other_values_is_far_below_the_threshold(query: str) -> None:
    assert words(query) < 0.8


@pytest.mark.parametrize(
    "query",
    ["Please move report.txt to archive.", "could you move report.txt into archive now", "move Report.txt, archive"],
)
def test_small_words_and_case_hide_no_near_duplicate(query: str) -> None:
    assert words(query) >= 0.95


def test_values_in_another_order_are_another_request() -> None:
    references = ["move alpha.txt into beta", "copy x to y", "move beta into gamma"]
    assert WordSimilarity(references).nearest(["move beta into alpha.txt"])[0].similarity < 0.95


def test_one_other_value_is_another_request() -> None:
    references = ["book flight 12 from Rome to Paris in economy", "book flight 99 from Oslo to Bern in economy"]
    near = WordSimilarity(references).nearest(["book flight 13 from Rome to Paris in economy"])[0]
    assert 0.4 < near.similarity < 0.95


def test_nothing_in_common_or_nothing_at_all_is_0() -> None:
    assert words("zebra") == 0
    assert words("") == 0
    assert words("?!") == 0
    assert WordSimilarity([]).nearest(["move a"])[0] == (0.0, -1)
    assert WordSimilarity(["", "a b"]).nearest(["a b"])[0] == (pytest.approx(1), 1)


def test_a_single_reference_still_separates() -> None:
    one = WordSimilarity(["move a.txt into docs"])
    same, other = one.nearest(["move a.txt into docs", "move b.txt into photos"])
    assert same.similarity == pytest.approx(1)
    assert other.similarity < 0.5


def test_unknown_backend_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"'words' or 'minilm'"):
        make_similarity("glove", [])


@pytest.mark.parametrize(("band", "mean"), [("low", 0.3843), ("medium", 0.5328), ("high", 0.6473)])
def test_a_band_holds_the_mean_that_table_13_gives_for_it(band: str, mean: float) -> None:
    assert [name for name in BANDS if in_band(mean, name)] == [band, "mixed"]


def test_every_similarity_is_in_one_band_and_in_mixed() -> None:
    for similarity in (0.0, 0.459, 0.59, 1.0):
        assert len([name for name in BANDS if in_band(similarity, name)]) == 2
    assert in_band(0.459, "medium")
    assert in_band(0.59, "high")
    with pytest.raises(ConfigError, match="the bands are low, medium, high, mixed"):
        in_band(0.5, "middle")


@pytest.mark.minilm
def test_minilm_embeddings_are_unit_rows_that_know_meaning() -> None:
    rows = embed(["delete the file", "remove the document", "the weather is nice in Rome"], batch=2)
    assert rows.shape == (3, 384)
    assert (rows**2).sum(1) == pytest.approx([1, 1, 1], abs=1e-5)
    assert rows[0] @ rows[1] > rows[0] @ rows[2] + 0.2
    nearest = MiniLMSimilarity(["remove the document", "stocks fell"]).nearest(
        ["remove the document", "stocks went down"]
    )
    assert [found.reference for found in nearest] == [0, 1]
    assert nearest[0].similarity == pytest.approx(1, abs=1e-5)
    assert MiniLMSimilarity([]).nearest(["a"]) == [(0.0, -1)]
