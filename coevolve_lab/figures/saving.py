"""Figures as files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import plotly.graph_objects as go
import plotly.io

from coevolve_lab.errors import PrerequisiteError

_IMAGES = (".png", ".svg", ".pdf", ".jpg", ".webp")


def save(figure: go.Figure, path: str | Path, width: int = 900) -> Path:
    """Write one figure; the ending of ``path`` says how: html (interactive), or png, svg, pdf, jpg, webp.

    HTML files work offline and share one ``plotly.min.js`` that is put beside them. Images are ``width`` pixels wide,
    PNG at twice the resolution. Raises PrerequisiteError when images need something that is not installed, ValueError
    for another ending.
    """
    path = Path(path)
    save_all({path.stem: figure}, path.parent, (path.suffix.removeprefix("."),), width)
    return path


def save_all(
    figures: Mapping[str, go.Figure], folder: str | Path, endings: Sequence[str] = ("html",), width: int = 900
) -> list[Path]:
    """Write figures by name into ``folder``, once per ending; much faster for images than ``save`` one by one."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for ending in endings:
        paths = [folder / f"{name}.{ending}" for name in figures]
        if f".{ending}" in _IMAGES:
            _write_images(list(figures.values()), paths, width)
        elif ending == "html":
            for figure, path in zip(figures.values(), paths, strict=True):
                figure.write_html(path, include_plotlyjs="directory")
        else:
            raise ValueError(f"cannot save a figure as '.{ending}'; endings: .html, {', '.join(_IMAGES)}")
        written += paths
    return written


def _write_images(figures: list[go.Figure], paths: list[Path], width: int) -> None:
    try:
        import kaleido  # noqa: F401
    except ImportError:
        raise PrerequisiteError(
            "images need kaleido: pip install 'coevolve-lab[notebook]'; .html needs nothing"
        ) from None
    heights = [figure.layout.height or 400 for figure in figures]
    try:
        plotly.io.write_images(figures, [str(path) for path in paths], width=width, height=heights, scale=2)
    except RuntimeError as error:
        if "chrome" not in str(error).lower():
            raise
        raise PrerequisiteError(
            "images need a Chromium: apt-get install chromium (or set BROWSER_PATH to one); .html needs nothing"
        ) from error
