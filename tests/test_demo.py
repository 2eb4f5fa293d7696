"""What the demo says of a run, whatever the run is; the demo itself is played in test_cli.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coevolve_lab.config import load_config
from coevolve_lab.demo import introduction, round_line

ROOT = Path(__file__).resolve().parent.parent
ALONE, PLANTED = "No LLM, no GPU, no network.", "wrong on purpose"
LLM = {"evolution": {"explorer": {"kind": "llm", "model": "m", "base_url": "http://127.0.0.1:9/v1"}}}


@pytest.mark.parametrize(
    ("config", "overrides", "alone", "planted"),
    [
        ("bfcl-tiny", {}, True, True),
        ("bfcl-tiny", LLM, False, True),
        ("bfcl-tiny", {"engine": {"kind": "vllm"}}, False, True),
        ("bfcl-tiny", {"policy": {"warm_start": {"noise_common": 0.0}}}, True, True),
        ("appworld-mini", {}, True, False),
        ("bfcl-qwen3-4b", {}, False, False),
    ],
)
def test_it_says_of_a_run_what_holds_for_it(config: str, overrides: dict[str, Any], alone: bool, planted: bool) -> None:
    said = "\n".join(introduction(load_config(ROOT / "configs" / f"{config}.yaml", **overrides), 6))
    assert (ALONE in said, PLANTED in said) == (alone, planted)


def test_the_default_run_is_introduced_as_ever() -> None:
    assert introduction(load_config(ROOT / "configs" / "bfcl-tiny.yaml"), 6)[1:3] == [
        "The policy is a tiny transformer (2 layers, width 128), made here from nothing\n"
        "and warm-started on demonstrations of which a share is wrong on purpose, from 20% for the\n"
        "most to 70% for the least demonstrated tool: that is what there is to unlearn.",
        ALONE,
    ]


@pytest.mark.parametrize(("split", "label"), [("held_out", "held-out"), ("test", "test")])
def test_a_score_bears_the_name_of_its_split(split: str, label: str) -> None:
    row = {"round": 1, "reward": 0.25, "score": 0.5, "stderr": 0.01, "signals": None, "flat": None, "seconds": 3.0}
    row |= {"accepted": 2, "held": 0, "retained": 0, "discarded": 1, "tasks": 9}
    assert round_line(row, 6, split) == (
        f"round 1/6 | reward 0.250 | {label} 0.500 ± 0.010 | drafts 2 accepted, 0 retained, 1 discarded | 9 tasks | 3 s"
    )
