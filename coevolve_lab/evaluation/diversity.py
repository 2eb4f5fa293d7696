"""How varied a task set is, and how close to another one, on embeddings of the tasks' queries (equations 2-4)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

# Coordinate differences are held for that many numbers at a time (32 MB).
_AT_ONCE = 2**22


def self_redundancy(embeddings: ArrayLike, k: int) -> float:
    """SR@k, equation 2: mean over tasks of the mean cosine similarity to the k nearest other tasks. Low: diverse.

    embeddings: [n, d], n >= 2. With fewer than k other tasks all of them are taken; a zero vector is like none.
    """
    x = _matrix(embeddings, "embeddings", least=2)
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    similar = _unit(x) @ _unit(x).T
    np.fill_diagonal(similar, -np.inf)
    nearest = np.sort(similar, axis=1)[:, ::-1][:, : min(k, len(x) - 1)]
    return float(nearest.mean())


def relative_energy_distance(x: ArrayLike, y: ArrayLike, estimator: str = "v") -> float:
    """ED_rel, equations 3-4: energy distance of Y (generated) from X (target), over X's own mean pairwise distance.

    x: [n, d], n >= 2; y: [m, d]. estimator: "v" is the equation as written and never negative; "u" leaves i = i' out
    of the means within X and Y, and can be negative, as in table 15; it needs m >= 2. If all of X is one point, the
    result is infinite, or 0 when Y is the same point.
    """
    if estimator not in ("v", "u"):
        raise ValueError(f"estimator must be 'v' or 'u', not {estimator!r}")
    a = _matrix(x, "x", least=2)
    b = _matrix(y, "y", least=2 if estimator == "u" else 1)
    if a.shape[1] != b.shape[1]:
        raise ValueError(f"x has {a.shape[1]} dimensions and y {b.shape[1]}")
    n, m = len(a), len(b)
    within_a, within_b = _total_distance(a, a), _total_distance(b, b)
    pairs_a, pairs_b = (n * n, m * m) if estimator == "v" else (n * (n - 1), m * (m - 1))
    energy = 2 * _total_distance(a, b) / (n * m) - within_a / pairs_a - within_b / pairs_b
    scale = within_a / (n * (n - 1))
    if scale == 0:
        return 0.0 if energy == 0 else float("inf")
    return float(energy / scale)


def max_similarity(embeddings: ArrayLike, reference: ArrayLike) -> Floats:
    """Each row's largest cosine similarity to the rows of ``reference`` (figure 5). [n, d], [m, d] -> [n]."""
    x, ref = _matrix(embeddings, "embeddings", least=0), _matrix(reference, "reference", least=1)
    return (_unit(x) @ _unit(ref).T).max(axis=1)


def _matrix(value: ArrayLike, name: str, least: int) -> Floats:
    matrix = np.asarray(value, dtype=np.float64)
    if matrix.ndim != 2 or len(matrix) < least:
        raise ValueError(f"{name} must be [n, d] with n >= {least}, not of shape {matrix.shape}")
    return matrix


def _unit(x: Floats) -> Floats:
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    return x / np.where(norms == 0, 1.0, norms)


def _total_distance(a: Floats, b: Floats) -> float:
    """Sum of all |a_i - b_j|. By direct differences (exact for equal points), in slices that bound the memory."""
    rows = max(1, _AT_ONCE // max(1, b.size))
    return sum(float(np.linalg.norm(a[i : i + rows, None] - b[None], axis=2).sum()) for i in range(0, len(a), rows))
