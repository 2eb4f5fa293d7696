"""t-SNE of embeddings: deterministic, and near things stay near."""

from __future__ import annotations

import numpy as np
import pytest

from coevolve_lab.evaluation.projection import project


def clusters(each: int = 25) -> tuple[np.ndarray, np.ndarray]:
    """Three groups of directions in 16 dimensions."""
    rng = np.random.default_rng(0)
    centres = np.repeat(np.eye(16)[:3] * 5, each, axis=0)
    return centres + rng.normal(scale=0.5, size=centres.shape), np.repeat(np.arange(3), each)


def test_the_same_seed_gives_the_same_map() -> None:
    x, _ = clusters()
    assert np.array_equal(project(x, seed=3), project(x, seed=3))


def test_nearest_neighbours_on_the_map_are_of_the_same_cluster() -> None:
    x, cluster = clusters()
    made = project(x)
    assert made.shape == (75, 2)
    distance = np.linalg.norm(made[:, None] - made[None], axis=2) + np.diag([np.inf] * len(made))
    assert (cluster[distance.argmin(axis=1)] == cluster).mean() > 0.95


def test_only_directions_count() -> None:
    x, _ = clusters()
    scale = np.random.default_rng(1).choice([0.5, 2.0, 4.0], size=(len(x), 1))  # exact in binary
    assert np.array_equal(project(x), project(x * scale))


def test_few_tasks_get_a_map_too() -> None:
    assert np.isfinite(project(np.eye(4))).all()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.eye(3), r"n >= 4.*\(3, 3\)"),
        (np.ones((5, 1)), "d >= 2"),
        (np.zeros(8), "not of shape"),
        (np.full((5, 2), np.nan), "not finite"),
        (np.ones((5, 2)), "the same way"),
        (np.zeros((5, 2)), "the same way"),
    ],
)
def test_what_has_no_map_is_refused(value: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        project(value)
