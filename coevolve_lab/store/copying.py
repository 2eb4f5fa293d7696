"""A copy of a run up to a round, as the beginning of a fork."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coevolve_lab.config import Config
from coevolve_lab.errors import StoreError
from coevolve_lab.store import run_folder
from coevolve_lab.store.reader import RunReader
from coevolve_lab.store.run_folder import Manifest, RunFolder


def copy_until(
    source_dir: str | Path,
    target_dir: str | Path,
    round: int,
    config: Config | Mapping[str, Any] | None = None,
) -> Path:
    """Make ``target_dir`` a run with the rounds of ``source_dir`` up to ``round``, which goes its own way from there.

    The source is only read, and may be in use. Files are hard links where the file system allows (nothing that a
    round committed is ever changed in place), else copies. config: what the copy goes on with; the source's when
    None. Its config.json notes where it came from. Raises StoreError when the source has no such round, the target
    exists, or something cannot be written; then there is no target.
    """
    reader = RunReader(source_dir, live=False)
    source, target = RunFolder(source_dir), RunFolder(target_dir)
    manifests = reader.manifests()
    if round not in manifests:
        raise StoreError(f"{source.path} has no round {round}; committed rounds: {sorted(manifests) or 'none'}")
    if source.path.resolve() in target.path.resolve().parents:
        raise StoreError(f"{target.path} lies inside the run itself: choose a folder beside it for the fork")
    if target.path.exists():
        raise StoreError(f"{target.path} exists already: choose another folder for the fork")
    building = RunFolder(target.path.with_name(f"{target.path.name}.{os.getpid()}.tmp"))
    with run_folder.writing(target.path):
        try:
            for path in (building.tables, building.rounds, building.checkpoints):
                path.mkdir(parents=True)
            for number, manifest in sorted(manifests.items()):
                if number <= round:
                    _copy_round(source, building, manifest)
            origin = {"run": str(source.path), "round": round, "fingerprint": source.read_config()["fingerprint"]}
            building.write_config(config if config is not None else reader.config, forked_from=origin)
            os.rename(building.path, target.path)
        finally:
            shutil.rmtree(building.path, ignore_errors=True)
    return target.path


def free_folder(run_dir: str | Path) -> Path:
    """A place beside a run where nothing is yet: its name and -fork1, -fork2, ..."""
    number, path = 1, Path(run_dir)
    while (place := path.with_name(f"{path.name}-fork{number}")).exists():
        number += 1
    return place


def _copy_round(source: RunFolder, target: RunFolder, manifest: Manifest) -> None:
    for table, parts in manifest.parts.items():
        (target.tables / table).mkdir(exist_ok=True)
        for part in parts:
            _link(source.tables / table / part.file, target.tables / table / part.file)
    if manifest.state:
        _link(source.rounds / manifest.state, target.rounds / manifest.state)
    if manifest.checkpoint:
        copied = target.checkpoints / manifest.checkpoint
        shutil.copytree(source.checkpoints / manifest.checkpoint, copied, copy_function=_link)
    run_folder.write_text(target.manifest(manifest.round), run_folder.manifest_text(manifest))


def _link(source: str | Path, target: str | Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        # Another file system, or one without hard links: a copy is as good, and fails with the true cause if not.
        shutil.copy2(source, target)
