from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from coevolve_lab.evaluation import diversity, max_similarity, relative_energy_distance, self_redundancy

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "vectors.json").read_text())["diversity"]
RANDOM = np.random.default_rng(0)


def test_metrics_match_the_vectors() -> None:
    for case in VECTORS:
        assert self_redundancy(case["y"], case["k"]) == pytest.approx(case["self_redundancy_y"], abs=1e-10)
        for estimator in ("v", "u"):
            made = relative_energy_distance(case["x"], case["y"], estimator)
            assert made == pytest.approx(case[f"ed_rel_{estimator}"], abs=1e-10)


def test_neighbours_are_other_tasks_even_when_equal() -> None:
    assert self_redundancy([[1.0, 2.0], [2.0, 4.0], [-2.0, 1.0]], 1) == pytest.approx((1 + 1 + 0) / 3)
    assert self_redundancy([[1.0, 0.0], [0.0, 0.0]], 1) == 0.0


def test_with_few_tasks_all_others_are_the_neighbours() -> None:
    x = RANDOM.normal(size=(4, 3))
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    expected = ((unit @ unit.T).sum() - 4) / 12
    assert self_redundancy(x, 3) == self_redundancy(x, 50) == pytest.approx(expected)


def test_energy_distance_of_a_set_from_itself() -> None:
    x = RANDOM.normal(size=(6, 3))
    assert relative_energy_distance(x, x) == pytest.approx(0.0, abs=1e-12)
    assert relative_energy_distance(x, x, "u") < 0
    far = relative_energy_distance(x, x + 100)
    assert far > relative_energy_distance(x, x + 1) > 0


def test_the_equation_as_written_is_not_negative_by_rounding_either() -> None:
    random = np.random.default_rng(1)
    for _ in range(100):
        x = random.normal(size=(7, 3))
        made = relative_energy_distance(x, random.permutation(x))
        assert 0 <= made < 1e-12


def test_points_that_coincide() -> None:
    point = [[1.0, 2.0]] * 3
    assert relative_energy_distance(point, point) == 0.0
    assert relative_energy_distance(point, [[0.0, 0.0]]) == np.inf
    assert relative_energy_distance([[0.0], [2.0]], [[1.0]]) == pytest.approx((2 * 1 - 1) / 2)


def test_slices_do_not_change_the_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = RANDOM.normal(size=(9, 4)), RANDOM.normal(size=(7, 4))
    expected = np.array([[float(np.linalg.norm(a - b)) for b in y] for a in x])
    for limit in (1, 2 * y.size, 2**22):
        monkeypatch.setattr(diversity, "_AT_ONCE", limit)
        assert diversity.distances(x, y) == pytest.approx(expected)


def test_max_similarity_to_a_reference_set() -> None:
    made = max_similarity([[1.0, 0.0], [1.0, 1.0]], [[2.0, 0.0], [0.0, -1.0]])
    assert made == pytest.approx([1.0, np.sqrt(0.5)])


def test_shapes_and_names_are_checked() -> None:
    with pytest.raises(ValueError, match="n >= 2"):
        self_redundancy([[1.0]], 1)
    with pytest.raises(ValueError, match="k must"):
        self_redundancy([[1.0], [2.0]], 0)
    with pytest.raises(ValueError, match="shape"):
        relative_energy_distance([1.0, 2.0], [[1.0]])
    with pytest.raises(ValueError, match="y must be"):
        relative_energy_distance([[1.0], [2.0]], [[1.0]], "u")
    with pytest.raises(ValueError, match="dimensions"):
        relative_energy_distance([[1.0], [2.0]], [[1.0, 2.0]])
    with pytest.raises(ValueError, match="estimator"):
        relative_energy_distance([[1.0], [2.0]], [[1.0]], "w")
    with pytest.raises(ValueError, match="estimator"):
        diversity.relative_energy([[0.0, 1.0], [1.0, 0.0]], [[0.0]], [[1.0], [1.0]], "w")


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_refused(bad: float) -> None:
    broken, whole = [[bad, 0.0], [1.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]
    for measure in (relative_energy_distance, max_similarity):
        for given in ((broken, whole), (whole, broken)):
            with pytest.raises(ValueError, match="finite"):
                measure(*given)
    with pytest.raises(ValueError, match="finite"):
        self_redundancy(broken, 1)
