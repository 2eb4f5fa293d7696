"""docs/publish_results.py: pages go where a reader of the repository finds them, without what is too heavy for it."""

from __future__ import annotations

import runpy
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[1] / "docs" / "publish_results.py"
PAGE = "# Table 3\n\n![Scores](scores.png)\n\nFiles: [scores.csv](scores.csv), [scores.html](scores.html)\n"


def made(folder: Path) -> Path:
    """What ``reproduce`` leaves of one experiment."""
    folder.mkdir(parents=True)
    for name in ("scores.csv", "scores.png", "scores.html"):
        (folder / name).write_text(name)
    (folder / "results.md").write_text(PAGE)
    return folder


def test_a_page_replaces_its_older_self_and_names_only_what_came_with_it(tmp_path: Path) -> None:
    script, into = runpy.run_path(str(SCRIPT)), tmp_path / "docs"
    made(tmp_path / "results" / "table3-tiny")
    made(tmp_path / "results" / "nothing-known-tiny")
    made(into / "table3")
    (into / "table3" / "old.csv").write_text("of an older page")
    made(into / "table5")

    script["publish"](tmp_path / "results", into)
    assert {path.name for path in (into / "table3").iterdir()} == {"results.md", "scores.csv", "scores.png"}
    assert (into / "table3" / "results.md").read_text().endswith("\nFiles: [scores.csv](scores.csv)\n")
    assert (into / "table5" / "scores.html").exists()
    assert {path.name for path in into.iterdir()} == {"table3", "table5"}

    listed = script["overview"](into)
    assert listed.index("[table3](table3/results.md)") < listed.index("[table5](table5/results.md)")
    assert "(table3/scores.png)" in listed
    assert "table1" not in listed
