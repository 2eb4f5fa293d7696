"""The run folder: atomic Parquet parts and round manifests, read through DuckDB, out as polars (design rules 6-8)."""

from coevolve_lab.store.copying import copy_until, free_folder
from coevolve_lab.store.reader import RunReader, quoted
from coevolve_lab.store.run_folder import Manifest
from coevolve_lab.store.snapshot import write_snapshot
from coevolve_lab.store.writer import RunWriter

__all__ = ["Manifest", "RunReader", "RunWriter", "copy_until", "free_folder", "quoted", "write_snapshot"]
