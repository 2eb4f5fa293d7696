"""``python -m coevolve_lab.estimate CONFIG...``: prints the tables."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from coevolve_lab.config import load_config
from coevolve_lab.estimate import GPUS, comparison, estimate, table


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a config's table, or of several the values side by side."""
    parser = argparse.ArgumentParser(prog="python -m coevolve_lab.estimate", description="memory and time, estimated")
    parser.add_argument("configs", nargs="+", metavar="CONFIG", help="a YAML file, or FILE:GPU for another GPU")
    parser.add_argument("--gpu", choices=sorted(GPUS), default="H100")
    given = parser.parse_args(arguments)
    columns = {}
    for word in given.configs:
        file, _, chosen = word.rpartition(":") if word.rpartition(":")[2] in GPUS else (word, "", given.gpu)
        config = load_config(file)
        columns[f"{config.name}, {GPUS[chosen].name}"] = estimate(config, GPUS[chosen])
    if len(columns) > 1:
        print(comparison(columns))
        return
    for heading, rows in columns.items():
        print(f"{heading}: estimated, not measured\n\n{table(rows)}")


if __name__ == "__main__":
    main()
