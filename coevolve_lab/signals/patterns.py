"""Action patterns: what the rare signal counts. The paper leaves them open; these are three readings (section 3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise


def action_patterns(tool_names: Sequence[str], kind: str = "bigram") -> list[tuple[str, ...]]:
    """Distinct, sorted patterns of one trajectory's calls.

    kind: "tool" gives 1-tuples; "bigram" pairs of consecutive calls (a single call is its 1-tuple); "sequence" all
    calls as one tuple. No calls, no patterns. Raises ValueError on another kind.
    """
    names = tuple(str(name) for name in tool_names)
    if kind not in ("tool", "bigram", "sequence"):
        raise ValueError(f"kind must be 'tool', 'bigram' or 'sequence', not {kind!r}")
    if not names:
        return []
    if kind == "sequence" or len(names) == 1:
        return [names]
    if kind == "tool":
        return sorted({(name,) for name in names})
    return sorted(set(pairwise(names)))
