"""Every notebook runs top to bottom in a fresh kernel, at its small size."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs_from_top_to_bottom(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COEVOLVE_NOTEBOOK", "small")
    monkeypatch.setenv("COEVOLVE_NOTEBOOK_RUN", str(tmp_path / "run"))
    monkeypatch.setenv("COEVOLVE_CACHE", str(tmp_path / "cache"))
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
    assert (tmp_path / "run" / "rounds" / "round-00003.json").is_file()
    shutil.rmtree(tmp_path / "run")


def test_there_are_notebooks_with_a_small_size() -> None:
    assert NOTEBOOKS
    for path in NOTEBOOKS:
        cells = nbformat.read(path, as_version=4).cells
        parameters = [cell for cell in cells if "parameters" in cell.metadata.get("tags", [])]
        assert len(parameters) == 1, path.name
        assert "COEVOLVE_NOTEBOOK" in parameters[0].source, path.name
