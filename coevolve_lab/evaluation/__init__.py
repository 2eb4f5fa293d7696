"""What a policy and a task set are worth: scores of a split, and diversity and relevance of queries."""

from coevolve_lab.evaluation.diversity import max_similarity, relative_energy_distance, self_redundancy
from coevolve_lab.evaluation.metrics import cross_comparison, pass_at_k, pass_rate, sgc, tgc

__all__ = [
    "cross_comparison",
    "max_similarity",
    "pass_at_k",
    "pass_rate",
    "relative_energy_distance",
    "self_redundancy",
    "sgc",
    "tgc",
]
