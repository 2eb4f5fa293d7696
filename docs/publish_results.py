"""Copies results of `coevolve-lab reproduce` into docs/results, without the heavy interactive figures, and makes the
list of them: docs/publish_results.py data/experiments/results docs/results"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from coevolve_lab.experiments import known, load

SCALE = "tiny"
KEPT = {".csv", ".png"}
HEAD = f"""\
# Every table and figure, from runs of our own

Written by `coevolve-lab reproduce NAME --scale {SCALE}`, one page each, from runs on CPUs: a tiny policy made from
nothing, a scripted explorer, synthesized held-out tasks. In size these numbers have nothing to do with the paper's,
whose values stand beside them, labelled as published. Read the order of methods, with its errors.
"""


def publish(made: Path, into: Path) -> None:
    """One folder for each page of ``made``, in place of an older one; others stay."""
    pages = [name for name in known() if (made / f"{name}-{SCALE}" / "results.md").is_file()]
    for name in pages:
        source, target = made / f"{name}-{SCALE}", into / name
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        for path in source.iterdir():
            if path.suffix in KEPT:
                shutil.copyfile(path, target / path.name)
        page = (source / "results.md").read_text(encoding="utf-8")
        (target / "results.md").write_text(_without_heavy_links(page), encoding="utf-8")


def _without_heavy_links(page: str) -> str:
    """The lines "Files: [a.csv](a.csv), [a.html](a.html)" name only what was copied."""

    def kept(line: re.Match[str]) -> str:
        links = [link for link in line[1].split(", ") if any(link.endswith(f"{ending})") for ending in KEPT)]
        return f"Files: {', '.join(links)}"

    return re.sub(r"^Files: (.*)$", kept, page, flags=re.MULTILINE)


def overview(into: Path) -> str:
    """All pages that are there, in the paper's order, each with its first picture."""
    lines = [HEAD]
    for name in (name for name in known() if (into / name / "results.md").is_file()):
        experiment = load(name)
        pictures = re.findall(r"^!\[.*\]\((.*\.png)\)$", (into / name / "results.md").read_text("utf-8"), re.MULTILINE)
        lines.append(f"## {experiment.title}\n\n[{name}]({name}/results.md)")
        if pictures:
            lines.append(f"[![{experiment.title}]({name}/{pictures[0]})]({name}/results.md)")
    return "\n\n".join(line.strip() for line in lines) + "\n"


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    folder = Path(sys.argv[2])
    publish(Path(sys.argv[1]), folder)
    (folder / "README.md").write_text(overview(folder), encoding="utf-8")
