"""The one writer of a run: records in, committed rounds out (design rules 7 and 8)."""

from __future__ import annotations

import json
import os
import shutil
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import polars as pl

from coevolve_lab.config import Config
from coevolve_lab.errors import StoreError
from coevolve_lab.store import run_folder, schema
from coevolve_lab.store.lock import RunLock
from coevolve_lab.store.reader import RunReader
from coevolve_lab.store.run_folder import Manifest, Part, RunFolder

Files = Callable[[Path], None] | Mapping[str, bytes]


class RunWriter:
    """Appends records and commits rounds. Made by ``create`` or ``open``; one per run; thread-safe.

    >>> with RunWriter.create("data/runs/first", config) as writer:
    ...     writer.append(tasks)
    ...     writer.commit(0, state={"seen": 100}, checkpoint_files=lambda folder: trainer.save(folder))
    ...     writer.reader.sql("select origin, count(*) from tasks group by origin")
    """

    def __init__(self, folder: RunFolder, lock: RunLock) -> None:
        self._folder = folder
        self._lock = lock
        self._name = uuid.uuid4().hex[:8]
        manifests = {round: folder.read_manifest(round) for round in folder.committed_rounds()}
        folder.check_chain(manifests)
        self._last = manifests[max(manifests)] if manifests else None
        _check_parts(folder, manifests)
        _remove_uncommitted(folder, manifests)
        self._frames: dict[str, list[pl.DataFrame]] = {}
        self._flushed: dict[str, int] = {}
        self._pending: list[Path] = []
        self._mutex = threading.RLock()  # the reader flushes, from whichever thread looks
        self.reader = RunReader(folder.path, before_read=self.flush)

    @classmethod
    def create(
        cls, run_dir: str | Path, config: Config | Mapping[str, Any], forked_from: Mapping[str, Any] | None = None
    ) -> RunWriter:
        """Start a run in a new or empty folder. Raises StoreError when something is there already."""
        folder = RunFolder(run_dir)
        with run_folder.writing(folder.path):
            folder.path.mkdir(parents=True, exist_ok=True)
            ours = {folder.lock.name, folder.tables.name, folder.rounds.name, folder.checkpoints.name}
            others = sorted(set(os.listdir(folder.path)) - ours)
        if folder.config.exists():
            raise StoreError(f"{folder.path} holds a run already: open it to go on, or choose another run_dir")
        if others:
            raise StoreError(f"{folder.path} is not empty ({', '.join(others[:3])}, ...): choose another run_dir")
        lock = RunLock(folder.lock)
        lock.acquire()
        try:
            with run_folder.writing(folder.path):
                for path in (folder.tables, folder.rounds, folder.checkpoints):
                    path.mkdir(exist_ok=True)
            folder.write_config(config, forked_from)
            return cls(folder, lock)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def open(cls, run_dir: str | Path, config: Config | Mapping[str, Any] | None = None) -> RunWriter:
        """Go on with a run at its last committed round; what an interrupted round left behind is removed.

        config: when given, it has to be the one that the run was started with. Raises RunLockedError while another
        writer lives, StoreError when the folder is no run, or a damaged one, or started with another config.
        """
        folder = RunFolder(run_dir)
        folder.read_config()
        if config is not None:
            folder.check_config(config)
        lock = RunLock(folder.lock)
        lock.acquire()
        try:
            return cls(folder, lock)
        except BaseException:
            lock.release()
            raise

    @property
    def run_dir(self) -> Path:
        return self._folder.path

    @property
    def committed_round(self) -> int | None:
        """Number of the last committed round; None before the first commit."""
        return self._last.round if self._last else None

    def append(self, records: Iterable[Any]) -> None:
        """Take records of any classes for the round in progress. They count after ``commit``.

        ``reader`` of this object sees them at once; readers elsewhere after ``flush``. Raises StoreError for a value
        that does not fit its column; then nothing of the call is taken.
        """
        frames = schema.to_frames(records)
        with self._mutex:
            for table, frame in frames.items():
                self._frames.setdefault(table, []).append(frame)

    def flush(self) -> None:
        """Show other readers the round in progress, as pending parts that go away if it is never committed."""
        with self._mutex:
            for table, frames in self._frames.items():
                fresh = frames[self._flushed.get(table, 0) :]
                if fresh:
                    self._lock.check()
                    name = f"pending-{self._commit:05d}-{len(self._pending):05d}-{self._name}.parquet"
                    path = self._table_folder(table) / name
                    _write_parquet(path, pl.concat(fresh), durable=False)
                    self._pending.append(path)
                    self._flushed[table] = len(frames)

    def commit(
        self,
        round: int,
        state: Mapping[str, Any] | None = None,
        checkpoint_files: Files | None = None,
        counters: Mapping[str, float] | None = None,
    ) -> Manifest:
        """Make everything appended since the last commit count, all at once, as (part of) ``round``.

        round: the last committed round (which is then added to; a state, checkpoint or counter that is not given
        stays as it was) or a later one. state: JSON-like. checkpoint_files: writes files into the folder that it is
        given, or bytes by file name. Raises StoreError naming the path when something cannot be written: the records
        are still held, and the same commit can be tried again.
        """
        with self._mutex:
            return self._commit_all(round, state, checkpoint_files, counters)

    def _commit_all(
        self,
        round: int,
        state: Mapping[str, Any] | None,
        checkpoint_files: Files | None,
        counters: Mapping[str, float] | None,
    ) -> Manifest:
        self._lock.check()
        if self._last and round < self._last.round:
            raise StoreError(f"{self.run_dir} is at round {self._last.round}: round {round} cannot change now")
        if self._last and round == self._last.round:
            before = self._last
        else:
            before = Manifest(round, self._commit, previous=self.committed_round, parts={})
        parts = dict(before.parts)
        for table, frames in self._frames.items():
            frame = pl.concat(frames)
            name = f"part-{round:05d}-{self._commit:05d}.parquet"
            _write_parquet(self._table_folder(table) / name, frame, durable=True)
            run_folder.sync_folder(self._folder.tables / table)
            parts[table] = (*parts.get(table, ()), Part(name, frame.height))
        manifest = replace(
            before,
            commit=self._commit,
            parts=parts,
            state=before.state if state is None else self._write_state(round, state),
            checkpoint=before.checkpoint
            if checkpoint_files is None
            else self._write_checkpoint(round, checkpoint_files),
            counters=before.counters if counters is None else counters,
        )
        run_folder.write_text(self._folder.manifest(round), run_folder.manifest_text(manifest))
        self._last = manifest
        self._frames.clear()
        self._flushed.clear()
        for path in self._pending:
            path.unlink(missing_ok=True)
        self._pending.clear()
        return manifest

    def close(self) -> None:
        """Give the run up to other writers. Records that were not committed are lost, for readers too."""
        with self._mutex:
            for path in self._pending:
                path.unlink(missing_ok=True)
            self._pending = []
            self._frames.clear()  # the reader flushes them before it looks, which only the lock's holder may
            self._flushed.clear()
        self._lock.release()

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def _commit(self) -> int:
        return self._last.commit + 1 if self._last else 0

    def _table_folder(self, table: str) -> Path:
        folder = self._folder.tables / table
        if not folder.exists():
            with run_folder.writing(folder):
                folder.mkdir(exist_ok=True)
            run_folder.sync_folder(folder.parent)
        return folder

    def _write_state(self, round: int, state: Mapping[str, Any]) -> str:
        name = f"state-{round:05d}-{self._commit:05d}.json"
        try:
            text = json.dumps(state)
        except (TypeError, ValueError) as error:
            raise StoreError(f"the state of round {round} is not JSON: {error}") from error
        run_folder.write_text(self._folder.rounds / name, text)
        return name

    def _write_checkpoint(self, round: int, files: Files) -> str:
        name = f"{round:05d}-{self._commit:05d}"
        final = self._folder.checkpoints / name
        temporary = self._folder.checkpoints / f"{name}.tmp"
        with run_folder.writing(final):
            for left_over in (temporary, final):  # of an earlier try of this same commit
                if left_over.exists():
                    shutil.rmtree(left_over)
            temporary.mkdir()
            if callable(files):
                files(temporary)
            else:
                for file, content in files.items():
                    (temporary / file).write_bytes(content)
            for parent, _, names in os.walk(temporary):
                for file in names:
                    run_folder.sync_file(Path(parent, file))
                run_folder.sync_folder(Path(parent))
            os.rename(temporary, final)
        run_folder.sync_folder(final.parent)
        return name


def _write_parquet(path: Path, frame: pl.DataFrame, durable: bool) -> None:
    def write(temporary: Path) -> None:
        with open(temporary, "wb") as file:
            frame.write_parquet(file)

    try:
        run_folder.write_file(path, write, durable)
    except pl.exceptions.PolarsError as error:
        raise StoreError(f"cannot write {path}: {error}; committed rounds are safe") from error


def _check_parts(folder: RunFolder, manifests: Mapping[int, Manifest]) -> None:
    for round, manifest in manifests.items():
        for path in _named(folder, manifest):
            if not path.exists():
                raise StoreError(f"{path}, named by round {round}, is missing; restore it, or fork at an earlier round")


def _named(folder: RunFolder, manifest: Manifest) -> list[Path]:
    """Everything on disk that a manifest counts on."""
    paths = [folder.tables / table / part.file for table, parts in manifest.parts.items() for part in parts]
    paths += [folder.rounds / manifest.state] if manifest.state else []
    return paths + ([folder.checkpoints / manifest.checkpoint] if manifest.checkpoint else [])


def _remove_uncommitted(folder: RunFolder, manifests: Mapping[int, Manifest]) -> None:
    """Delete what a killed or unfinished round left: only names that a writer gives, and none that a manifest names."""
    keep = {path for manifest in manifests.values() for path in _named(folder, manifest)}
    candidates = [
        *folder.tables.glob("*/pending-*.parquet"),
        *folder.tables.glob("*/part-*.parquet"),
        *folder.rounds.glob("state-*.json"),
        *folder.checkpoints.glob("[0-9]*-[0-9]*"),
        *folder.path.glob("*.tmp"),
        *folder.tables.glob("*/*.tmp"),
        *folder.rounds.glob("*.tmp"),
    ]
    for path in candidates:
        if path not in keep:
            with run_folder.writing(path):
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
