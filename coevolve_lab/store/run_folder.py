"""Names and small files of a run folder: config.json, the round manifests, and how files are written atomically.

    config.json                          the resolved config, its fingerprint, the format version
    lock                                 who writes (lock.py)
    tables/<table>/part-<round>-<commit>.parquet   rows that a manifest names; other parts do not count
    tables/<table>/pending-<commit>-<seq>-<writer>.parquet   rows of the round in progress, for live views
    rounds/round-<round>.json            the manifest of a committed round, written last
    rounds/state-<round>-<commit>.json   signal windows, counters, random states: what resuming needs beside checkpoints
    checkpoints/<round>-<commit>/        whatever the training saves
    run.duckdb                           a snapshot of all tables (snapshot.py)

All names inside are relative, so a run that nobody has open can be moved or copied.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from coevolve_lab.config import Config, fingerprint
from coevolve_lab.errors import StoreError

FORMAT = 1


@dataclass(frozen=True)
class Part:
    """A Parquet file of one table, and how many rows it has."""

    file: str
    rows: int


@dataclass(frozen=True)
class Manifest:
    """What one committed round consists of. A round that is committed again gets the old parts and the new ones.

    commit: number of the commit that wrote this, counted over the run; previous: the round committed before this one.
    """

    round: int
    commit: int
    previous: int | None
    parts: Mapping[str, tuple[Part, ...]]
    state: str | None = None
    checkpoint: str | None = None
    counters: Mapping[str, float] = field(default_factory=dict)
    format: int = FORMAT


class RunFolder:
    """Paths of one run. Making one touches nothing on disk."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).resolve()
        self.config = self.path / "config.json"
        self.lock = self.path / "lock"
        self.tables = self.path / "tables"
        self.rounds = self.path / "rounds"
        self.checkpoints = self.path / "checkpoints"
        self.snapshot = self.path / "run.duckdb"

    def manifest(self, round: int) -> Path:
        return self.rounds / f"round-{round:05d}.json"

    def read_config(self) -> dict[str, Any]:
        """The content of config.json: keys format, fingerprint, config, forked_from.

        Raises StoreError when this is no run folder, was written by another format version, or was edited.
        """
        try:
            content = json.loads(self.config.read_text())
            version, tree, stored = content["format"], content["config"], content["fingerprint"]
        except (FileNotFoundError, NotADirectoryError):
            what = "is not a run: no config.json in it" if self.path.exists() else "does not exist: moved or deleted?"
            raise StoreError(f"{self.path} {what}; give the folder of an existing run, or create one") from None
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{self.config} is damaged ({error!r}); restore it from a fork or a backup") from error
        except OSError as error:
            raise StoreError(f"cannot read {self.config}: {error.strerror}") from error
        if version != FORMAT:
            remedy = "update coevolve_lab" if version > FORMAT else "open it with the version that wrote it"
            raise StoreError(f"{self.path} has run format {version}, this version reads {FORMAT}: {remedy}")
        if fingerprint(tree) != stored:
            raise StoreError(f"{self.config} was edited by hand; undo that, or fork the run with the changed settings")
        return dict(content)

    def check_config(self, config: Config | Mapping[str, Any]) -> None:
        """Raise StoreError naming what differs when the run was started with another config.

        Settings that did not exist when the run was started count as their defaults.
        """
        stored, given = self.read_config()["config"], _tree(config)
        if isinstance(config, Config):
            stored = _with_new_defaults(stored)
        if fingerprint(given) != fingerprint(stored):
            changes = "; ".join(_differences(stored, given))
            remedy = "open it without a config to go on as it began, fork it to change settings, or use another run_dir"
            if not self.committed_rounds():
                remedy = "nothing is committed there, so delete it to begin anew, or use another run_dir"
            raise StoreError(f"{self.path} was started with another config ({changes}); {remedy}")

    def write_config(self, config: Config | Mapping[str, Any], forked_from: Mapping[str, Any] | None = None) -> None:
        tree = _tree(config)
        content = {"format": FORMAT, "fingerprint": fingerprint(tree), "config": tree, "forked_from": forked_from}
        write_text(self.config, json.dumps(content, indent=1))

    def committed_rounds(self) -> list[int]:
        """Numbers of the committed rounds, ascending."""
        try:
            names = os.listdir(self.rounds)
        except OSError as error:
            raise StoreError(f"cannot list {self.rounds}: {error.strerror}; was the run moved or deleted?") from error
        return sorted(int(n[6:-5]) for n in names if n.startswith("round-") and n.endswith(".json"))

    def stamp(self, round: int) -> tuple[int, int]:
        """Changes whenever the manifest of a round is replaced."""
        try:
            stat = self.manifest(round).stat()
        except OSError as error:
            raise StoreError(f"{self.manifest(round)} is gone: {error.strerror}; was the run moved?") from error
        return stat.st_mtime_ns, stat.st_ino

    def read_manifest(self, round: int) -> Manifest:
        """Raises StoreError when the manifest is missing or damaged."""
        path = self.manifest(round)
        try:
            content = json.loads(path.read_text())
            parts = {table: tuple(Part(**p) for p in named) for table, named in content.pop("parts").items()}
            return Manifest(parts=parts, **content)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{path} is missing or damaged ({error}); fork the run at an earlier round") from error

    def check_chain(self, manifests: Mapping[int, Manifest]) -> None:
        """Raise StoreError when a round between two committed ones is missing."""
        previous = None
        for round in sorted(manifests):
            if manifests[round].previous != previous:
                missing = self.manifest(manifests[round].previous or 0)
                raise StoreError(f"{self.manifest(round)} follows {missing}, which is missing; restore it")
            previous = round


def manifest_text(manifest: Manifest) -> str:
    return json.dumps(dataclasses.asdict(manifest), indent=1)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn whatever goes wrong while ``path`` is written into a StoreError that names it."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(
            f"cannot write {path}: {reason}; committed rounds are safe. Mend the folder or free space, then try again"
        ) from error


def write_file(path: Path, write: Callable[[Path], None], durable: bool = True) -> None:
    """Run ``write`` on a temporary name beside ``path`` and move the result there at once.

    durable: the content is on the disk before the move (the folder entry is not: see ``sync_folder``).
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with writing(path):
        try:
            write(temporary)
            if durable:
                sync_file(temporary)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """An atomic, durable text file: after a crash there is the old content or the new, never a part."""
    write_file(path, lambda temporary: _write_text(temporary, text))
    sync_folder(path.parent)


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def sync_file(path: Path) -> None:
    _sync(path, os.O_RDONLY)


def sync_folder(path: Path) -> None:
    """Make names that were created in a folder survive a power cut."""
    with writing(path):
        _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _tree(config: Config | Mapping[str, Any]) -> dict[str, Any]:
    return config.model_dump(mode="json") if isinstance(config, Config) else dict(config)


def _with_new_defaults(tree: dict[str, Any]) -> dict[str, Any]:
    try:
        return Config.model_validate(tree).model_dump(mode="json")
    except ValidationError:  # from a version whose settings this one does not know: compare it as it is
        return tree


def _differences(old: Any, new: Any, at: str = "") -> list[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        keys = [*old, *(k for k in new if k not in old)]
        where = {k: f"{at}.{k}" if at else k for k in keys}
        return [d for k in keys for d in _differences(old.get(k, "(absent)"), new.get(k, "(absent)"), where[k])]
    return [] if old == new else [f"{at}: was {old!r}, now {new!r}"]
