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
    result is infinite, or 0 where the energy distance is 0.
    """
    a = _matrix(x, "x", least=2)
    b = _matrix(y, "y", least=2 if estimator == "u" else 1)
    if a.shape[1] != b.shape[1]:
        raise ValueError(f"x has {a.shape[1]} dimensions and y {b.shape[1]}")
    return relative_energy(distances(a, a), distances(b, b), distances(a, b), estimator)


def relative_energy(within_x: ArrayLike, within_y: ArrayLike, between: ArrayLike, estimator: str = "v") -> float:
    """``relative_energy_distance`` from distances that are known already: [n, n], [m, m] and [n, m]."""
    if estimator not in ("v", "u"):
        raise ValueError(f"estimator must be 'v' or 'u', not {estimator!r}")
    xx, yy, xy = (np.asarray(found, dtype=np.float64) for found in (within_x, within_y, between))
    n, m = xy.shape
    pairs_x, pairs_y = (n * n, m * m) if estimator == "v" else (n * (n - 1), m * (m - 1))
    energy = 2 * xy.sum() / (n * m) - xx.sum() / pairs_x - yy.sum() / pairs_y
    if estimator == "v":
        energy = max(energy, 0.0)  # what rounding leaves of sets with the same points
    scale = xx.sum() / (n * (n - 1))
    if scale == 0:
        return 0.0 if energy == 0 else float("inf")
    return float(energy / scale)


def distances(x: ArrayLike, y: ArrayLike) -> Floats:
    """All |x_i - y_j|, [n, m]. By direct differences (exact for equal points), in slices that bound the memory."""
    a, b = _matrix(x, "x", least=0), _matrix(y, "y", least=0)
    rows = max(1, _AT_ONCE // max(1, b.size))
    parts = [np.linalg.norm(a[i : i + rows, None] - b[None], axis=2) for i in range(0, len(a), rows)]
    return np.concatenate(parts) if parts else np.zeros((0, len(b)))


def max_similarity(embeddings: ArrayLike, reference: ArrayLike) -> Floats:
    """Each row's largest cosine similarity to the rows of ``reference`` (figure 5). [n, d], [m, d] -> [n]."""
    x, ref = _matrix(embeddings, "embeddings", least=0), _matrix(reference, "reference", least=1)
    return (_unit(x) @ _unit(ref).T).max(axis=1)


def _matrix(value: ArrayLike, name: str, least: int) -> Floats:
    matrix = np.asarray(value, dtype=np.float64)
    if matrix.ndim != 2 or len(matrix) < least:
        raise ValueError(f"{name} must be [n, d] with n >= {least}, not of shape {matrix.shape}")
    if not np.isfinite(matrix).all():
        raise ValueError(f"{name} must hold finite numbers only")
    return matrix


def _unit(x: Floats) -> Floats:
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    return x / np.where(norms == 0, 1.0, norms)
