"""Embeddings on a plane by t-SNE, for figure 3c: what is near stays near; distances between clusters mean nothing."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coevolve_lab.errors import PrerequisiteError

_PERPLEXITY = 30.0


def project(embeddings: ArrayLike, seed: int = 0, perplexity: float = _PERPLEXITY) -> NDArray[np.float64]:
    """[n, d] -> [n, 2], n >= 4, d >= 2. Cosine distances, begun at the principal components; the same input and seed
    give the same map on one machine.

    Maps of different calls cannot be compared: project all tasks at once and show parts of that. perplexity: about how
    many neighbours count; it is lowered to (n - 1) / 3 for few tasks. Raises ValueError for another shape, for values
    that are not finite and for tasks that all lie at one point, PrerequisiteError without scikit-learn.
    """
    x = np.asarray(embeddings, dtype=np.float64)
    if x.ndim != 2 or len(x) < 4 or x.shape[1] < 2:
        raise ValueError(f"embeddings must be [n, d] with n >= 4 and d >= 2, not of shape {x.shape}")
    if not np.isfinite(x).all():
        raise ValueError("embeddings hold values that are not finite")
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    unit = x / np.where(norms == 0, 1.0, norms)  # among unit vectors Euclidean neighbours are cosine neighbours
    if np.allclose(unit, unit[0], rtol=0, atol=1e-12):
        raise ValueError("all embeddings point the same way: there is no map of one point")
    try:
        from sklearn.manifold import TSNE
    except ImportError:
        raise PrerequisiteError("the map of tasks needs scikit-learn: pip install 'coevolve-lab[notebook]'") from None
    # One thread: sums taken in another order would give another map.
    near = min(perplexity, (len(x) - 1) / 3)
    made = TSNE(2, perplexity=near, init="pca", random_state=seed, n_jobs=1).fit_transform(unit)
    return np.asarray(made, dtype=np.float64)
