"""Every notebook runs top to bottom in a fresh kernel, at its small size."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from coevolve_lab.evolution.llm.explorer import RECORDING
from docs.record_llm_example import record

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
MARKS = {"09_appworld": pytest.mark.appworld}


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", [pytest.param(path, id=path.stem, marks=MARKS.get(path.stem, ())) for path in NOTEBOOKS]
)
def test_runs_from_top_to_bottom(
    path: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COEVOLVE_NOTEBOOK", "small")
    monkeypatch.setenv("COEVOLVE_NOTEBOOK_RUN", str(tmp_path / "run"))
    monkeypatch.setenv("COEVOLVE_CACHE", str(tmp_path_factory.getbasetemp() / "notebooks"))  # one warm start for all
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}
    )
    client.execute(env=dict(os.environ))
    errors = [
        f"{output.ename}: {output.evalue}"
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "error"
    ]
    assert not errors
    if any("RUN_DIR" in cell.source for cell in notebook.cells if cell.cell_type == "code"):
        assert (tmp_path / "run" / "rounds" / "round-00003.json").is_file()
        shutil.rmtree(tmp_path / "run")


def test_the_recorded_example_is_what_its_script_makes(tmp_path: Path) -> None:
    """Else the replay in 05_llm_explorer fails: run docs/record_llm_example.py again."""
    record(tmp_path)
    kept = ROOT / "notebooks" / "llm_example"
    names = {path.relative_to(kept) for path in kept.rglob("*") if path.is_file()}
    assert names == {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()}
    for name in names - {Path(RECORDING)}:
        assert (tmp_path / name).read_text() == (kept / name).read_text()
    made, there = (
        [{key: value for key, value in json.loads(line).items() if key != "reply"} for line in path.open()]
        for path in (tmp_path / RECORDING, kept / RECORDING)
    )
    assert made == there
    assert sum(path.stat().st_size for path in kept.rglob("*")) < 300_000


def test_there_are_notebooks_with_a_small_size() -> None:
    assert NOTEBOOKS
    for path in NOTEBOOKS:
        cells = nbformat.read(path, as_version=4).cells
        parameters = [cell for cell in cells if "parameters" in cell.metadata.get("tags", [])]
        assert len(parameters) == 1, path.name
        assert "COEVOLVE_NOTEBOOK" in parameters[0].source, path.name
