"""The README.md of a Hugging Face ``datasets`` folder: which files, which columns, and what they mean.

``datasets.load_dataset(folder)`` and the Hub read the part between the dashes; people read the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from coevolve_lab.exchange.columns import Columns

CARD = "README.md"
TAG = "coevolve-lab"  # by which a folder is known to be an export


def write_card(folder: Path, what: str, columns: Columns, splits: Mapping[str, int]) -> None:
    """what: "tasks" or "trajectories". splits: number of rows by split, each in ``data/SPLIT-*.parquet``."""
    head: dict[str, Any] = {"pretty_name": f"CoEvolve {what}", "tags": [TAG, "agent", "tool-calling"]}
    if splits:  # without rows there are no files that could be named
        head["configs"] = [
            {
                "config_name": what,
                "default": True,
                "data_files": [{"split": split, "path": f"data/{split}-*.parquet"} for split in splits],
            }
        ]
        head["dataset_info"] = {
            "config_name": what,
            "features": [{"name": name, **_feature(column.type)} for name, column in columns.items()],
        }
    table = [f"| {name} | {column.meaning} |" for name, column in columns.items()]
    text = [
        "---",
        yaml.safe_dump(head, sort_keys=False, allow_unicode=True).rstrip(),
        "---",
        f"# {head['pretty_name']}",
        "",
        f"Written by `coevolve-lab export --what {what}`: {sum(splits.values())} rows. `messages` and `tools` go into "
        "any chat template (`tools` is JSON text); the other columns say where a row came from.",
        "",
        "| column | meaning |",
        "|---|---|",
        *table,
        "",
    ]
    (folder / CARD).write_text("\n".join(text), encoding="utf-8")


def is_ours(folder: Path) -> bool:
    """Whether a folder holds an export and nothing else."""
    if {path.name for path in folder.iterdir()} != {CARD, "data"}:
        return False
    try:
        head = yaml.safe_load((folder / CARD).read_text(encoding="utf-8").split("\n---\n")[0].removeprefix("---"))
    except (OSError, ValueError, yaml.YAMLError):
        return False
    return isinstance(head, dict) and TAG in (head.get("tags") or ())


def _feature(kind: pa.DataType) -> dict[str, Any]:
    """An Arrow type as the ``datasets`` library writes its features in YAML."""
    if pa.types.is_list(kind):
        inner = _feature(kind.value_type)
        return {"list": inner.get("dtype", inner.get("struct", inner))}
    if pa.types.is_struct(kind):
        return {"struct": [{"name": field.name, **_feature(field.type)} for field in kind]}
    return {"dtype": {"double": "float64"}.get(str(kind), str(kind))}
