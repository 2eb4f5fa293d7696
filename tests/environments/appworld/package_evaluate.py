"""Runs with the Python of the installed package: ``package_evaluate.py ROOT DATASET EXPERIMENT...``.

Prints what ``appworld evaluate`` computes for each experiment under ROOT, as JSON; one process for all of them, because
importing the package takes most of the time.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys


def main(root: str, dataset: str, experiments: list[str]) -> None:
    from appworld import update_root  # type: ignore[import-not-found]
    from appworld.evaluator import evaluate_dataset  # type: ignore[import-not-found]

    update_root(root)
    found = {}
    with contextlib.redirect_stdout(io.StringIO()):
        for name in experiments:
            found[name] = evaluate_dataset(experiment_name=name, dataset_name=dataset, save_reports=False)
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
