"""The method that the validation split chooses, and what it is worth on the test split, which had no say in it."""

from __future__ import annotations

import polars as pl

from coevolve_lab.experiments.outputs.artefact import Artefact, markdown, shown
from coevolve_lab.experiments.outputs.gains import compared, text
from coevolve_lab.experiments.results import Results

SPLIT = "validation"
_NOTE = (
    "Chosen: the best mean on the split “{split}” over the seeds that all methods have there. The test split had no "
    "say in it, so the chosen method's test score is a fair one; that of a method picked by eye from this table is not."
)


def chosen(results: Results) -> list[Artefact]:
    """A choice for each column. Says so where a method has no run with a validation score."""
    made = []
    for column in results.columns:
        by_row = {row: results.by_seed(row, column, SPLIT) for row in results.rows}
        seeds = sorted(set.intersection(*(set(played) for played in by_row.values())))
        title, name = f"Chosen on “{SPLIT}”: {column}", f"chosen_{column}"
        if not seeds:
            bare = [row for row, played in by_row.items() if not played]
            made.append(
                Artefact(name, title, f"Nothing is chosen: no seed has all methods ({', '.join(bare)} missing).")
            )
            continue
        valid = {row: [played[seed].last.score for seed in seeds] for row, played in by_row.items()}
        best = max(valid, key=lambda row: sum(valid[row]))  # the first of equals
        lines, rows = [], []
        for row, scores in sorted(valid.items(), key=lambda item: -sum(item[1])):
            tested = results.by_seed(row, column)
            test = [tested[seed].last.score for seed in seeds if seed in tested]
            lines.append([f"**{row}** (chosen)" if row == best else row, shown(scores, 1, 100), shown(test, 1, 100)])
            rows.append((column, row, row == best, sum(scores) / len(scores), sum(test) / len(test)))
        table = markdown(["", f"{SPLIT} (for choosing)", "test"], lines)
        missing = (results.plan.experiment.place(cell.arm, cell.column) for cell in results.missing)
        absent = dict.fromkeys(row for row, there in missing if row not in by_row and there == column)
        against = compared(results, [(row, best) for row in by_row if row != best]).filter(pl.col("column") == column)
        body = f"{table}\n\n{_NOTE.format(split=SPLIT)}\n"
        if absent:
            body += f"\nNot in the choice, for want of a finished run: {', '.join(absent)}.\n"
        if against.height:
            body += f"\nOn the test split, the chosen one against each other, paired by seed:\n\n{text(against)}"
        schema = ["column", "row", "chosen", "validation", "test"]
        made.append(Artefact(name, title, body, pl.DataFrame(rows, schema=schema, orient="row")))
    return made
