"""How close synthesized tasks come to the tasks of the evaluation (figure 5 of the paper)."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
import polars as pl

from coevolve_lab.figures import published as over
from coevolve_lab.figures import style

_TITLE = "Largest similarity to an evaluation task"
_BINS = 20  # of 0.05 each, from 0 to 1


def similarity_histogram(
    similarities: pl.DataFrame, published: pl.DataFrame | None = None, dark: bool = False
) -> go.Figure:
    """Share of tasks by their largest cosine similarity to any task of the evaluation, in steps of 0.05.

    similarities: columns similarity and, where there are several, environment; one row a task, so a verdicts table
    does, filtered to the outcomes that are meant. Rows without a similarity are left out and counted in the title;
    negative ones count as 0. The paper's are cosines of sentence embeddings: lay only those beside them
    (``evolution.similarity: minilm``). published: ``paper.figure("5")``, of which only the range is known: a hollow
    line above the bars from its least to its most.
    """
    if "environment" not in similarities.columns:
        similarities = similarities.with_columns(environment=pl.lit("own run"))
    known = similarities.drop_nulls("similarity")
    if known.is_empty():
        return style.no_data(_TITLE, "validation measures it for every draft", dark)
    unknown = similarities.height - known.height
    title = _TITLE + (f" ({unknown} without one left out)" if unknown else "")
    made = style.figure(title, "cosine similarity", "share of tasks", dark)
    edges = np.linspace(0, 1, _BINS + 1)
    top = 0.0
    for index, environment in enumerate(known["environment"].unique(maintain_order=True)):
        values = known.filter(pl.col("environment") == environment)["similarity"].to_numpy()
        share = np.histogram(np.clip(values, 0, 1), edges)[0] / len(values)
        top = max(top, float(share.max()))
        name = f"{environment} (n = {len(values)}, mean {values.mean():.2f})"
        made.add_bar(
            x=(edges[:-1] + edges[1:]) / 2,
            y=share,
            width=1 / _BINS,
            marker=style.bar(style.OTHERS[index % len(style.OTHERS)], dark),
            opacity=0.75,
            name=name,
            hovertemplate=f"%{{x:.3f}} ± 0.025: %{{y:.1%}} of {environment}<extra></extra>",
        )
    if published is not None:
        for index, (benchmark, least, most) in enumerate(published.select("benchmark", "least", "most").iter_rows()):
            height = top * (1.1 + 0.1 * index)
            over.add_points(made, [least, most], [height, height], f"range on {benchmark}", index, dark)
    return made.update_layout(barmode="overlay").update_yaxes(tickformat=".0%").update_xaxes(range=[0, 1.02])
