"""What the paper published (arXiv:2604.15840v1), to lay beside one's own results and never to mix with them.

>>> from coevolve_lab import paper
>>> paper.table(5)      # every row names its source
>>> paper.catalogue()   # every table and figure, and what makes the same from one's own runs
"""

from coevolve_lab.paper.catalogue import catalogue
from coevolve_lab.paper.published import LABEL, details, figure, inconsistencies, sources, table
from coevolve_lab.paper.tables import markdown, published_scores, side_by_side

__all__ = [
    "LABEL",
    "catalogue",
    "details",
    "figure",
    "inconsistencies",
    "markdown",
    "published_scores",
    "side_by_side",
    "sources",
    "table",
]
