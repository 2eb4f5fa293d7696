"""Draws the README's picture, the loop with the numbers of a run: docs/picture.py data/runs/demo docs/loop.svg"""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path
from typing import Any

from coevolve_lab.report import evaluations_table
from coevolve_lab.store import RunReader

INK, FAINT, PAPER = "#222222", "#8C8C8C", "#FFFFFF"
BLUE, VERMILLION, GREEN = "#0072B2", "#D55E00", "#009E73"
WIDTH, HEIGHT = 960, 456


def facts(reader: RunReader) -> dict[str, Any]:
    """What the picture says of a run; rounds after D_0 only, except for scores and task counts."""

    def count(table: str, condition: str = "true") -> int:
        return int(reader.sql(f"select count(*) as n from {table} where round > 0 and {condition}")["n"][0])

    split = reader.config["environment"]["evaluation_split"]
    scores = [row for row in evaluations_table(reader).to_dicts() if row["split"] == split]
    if len(scores) < 2:
        raise SystemExit(f"{reader.run_dir} has fewer than two evaluations on '{split}': finish the run first")
    kinds = reader.sql("select kind, count(*) as n from signals group by kind order by n desc").rows()
    return {
        "rounds": reader.committed_round,
        "tasks": [row["task_set"] for row in scores],
        "scores": scores,
        "split": split,
        "trajectories": count("trajectories", "purpose = 'train'"),
        "updates": count("updates"),
        "signals": ", ".join(f"{n:,} {kind}" for kind, n in kinds) or "none",
        "contexts": count("contexts"),
        "triplets": count("triplets"),
        "drafts": count("drafts"),
        "accepted": count("verdicts", "outcome = 'accepted'"),
    }


def text(
    x: float, y: float, words: str, size: int = 15, color: str = INK, bold: bool = False, at: str = "start"
) -> str:
    weight = ' font-weight="600"' if bold else ""
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="{color}" text-anchor="{at}"{weight}>{escape(words)}</text>'


def box(x: float, y: float, width: float, color: str, title: str, lines: list[str]) -> str:
    shape = (
        f'<rect x="{x}" y="{y}" width="{width}" height="86" rx="8" fill="{PAPER}" stroke="{color}" stroke-width="2.5"/>'
    )
    said = [text(x + 14, y + 26, title, 16, color, bold=True)]
    said += [text(x + 14, y + 49 + 21 * i, line, 14) for i, line in enumerate(lines)]
    return shape + "".join(said)


def arrow(path: str) -> str:
    return f'<path d="{path}" fill="none" stroke="{INK}" stroke-width="2" marker-end="url(#tip)"/>'


def curve(scores: list[dict[str, Any]], x: float, y: float, width: float, height: float) -> str:
    """Score against training step with standard errors, axes from 0."""
    last = max(row["step"] for row in scores) or 1
    top = max(0.1, *(row["score"] + row["stderr"] for row in scores)) * 1.1

    def place(step: float, score: float) -> tuple[float, float]:
        return x + width * step / last, y + height * (1 - score / top)

    points = [(*place(row["step"], row["score"]), row["stderr"] * height / top) for row in scores]
    made = [f'<path d="M{x} {y}V{y + height}H{x + width}" fill="none" stroke="{INK}"/>']
    made += [f'<path d="M{a:.1f} {b - e:.1f}V{b + e:.1f}" stroke="{BLUE}" stroke-width="1.5"/>' for a, b, e in points]
    joined = " ".join(f"{a:.1f},{b:.1f}" for a, b, _ in points)
    made.append(f'<polyline points="{joined}" fill="none" stroke="{BLUE}" stroke-width="2.5"/>')
    made += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="4" fill="{BLUE}"/>' for a, b, _ in points]
    for row, (a, b, e) in zip((scores[0], scores[-1]), (points[0], points[-1]), strict=True):
        at = "start" if a == x else "middle"
        made.append(text(a + 6 * (at == "start"), b - e - 8, f"{row['score']:.2f}", 14, BLUE, bold=True, at=at))
    made.append(text(x + width / 2, y + height + 22, f"{last} training steps", 13, FAINT, at="middle"))
    return "".join(made)


def picture(of: dict[str, Any]) -> str:
    first, last = of["tasks"][0], of["tasks"][-1]
    stage_1 = [f"{of['trajectories']:,} trajectories", f"{of['updates']} GRPO steps"]
    stage_2 = [f"{of['contexts']:,} contexts", f"{of['triplets']:,} steps explored"]
    stage_3 = [f"{of['drafts']:,} drafts", f"{of['accepted']:,} accepted by execution"]
    parts = [
        text(30, 38, f"One run, {of['rounds']} rounds: an agent and its tasks improve each other", 19, bold=True),
        box(190, 66, 230, INK, "task set D_t", [f"{first:,} tasks at first", f"{last:,} at the end"]),
        box(30, 200, 250, BLUE, "1  roll out, train", stage_1),
        box(330, 200, 250, GREEN, "3  abstract, validate", stage_3),
        box(180, 326, 250, VERMILLION, "2  reflect, explore", stage_2),
        arrow("M190 110C110 110 100 150 100 192"),
        arrow("M500 200C500 150 490 110 428 110"),
        arrow("M100 286C100 350 120 370 172 370"),
        arrow("M430 370C490 370 500 340 500 294"),
        text(30, 440, f"signals: {of['signals']}", 13, FAINT),
        text(640, 84, f"success on {of['split']} tasks", 16, BLUE, bold=True),
        text(640, 104, "greedy, ± one standard error", 13, FAINT),
        curve(of["scores"], 650, 130, 270, 230),
    ]
    triangle = f'<path d="M0 0L10 5L0 10z" fill="{INK}"/>'
    size = 'viewBox="0 0 10 10" refX="8" refY="5" markerWidth="7" markerHeight="7"'
    tip = f'<marker id="tip" {size} orient="auto-start-reverse">{triangle}</marker>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    font = 'font-family="Helvetica, Arial, sans-serif" role="img"'
    return f'{head} {font}><defs>{tip}</defs><rect width="100%" height="100%" fill="{PAPER}"/>{"".join(parts)}</svg>\n'


if __name__ == "__main__":
    run_dir, target = sys.argv[1:]
    Path(target).write_text(picture(facts(RunReader(run_dir))), encoding="utf-8")
