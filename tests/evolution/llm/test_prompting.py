from __future__ import annotations

import re
from pathlib import Path

import pytest

from coevolve_lab.errors import ConfigError
from coevolve_lab.evolution.llm.exploration import GUIDANCE
from coevolve_lab.evolution.llm.prompting import Prompts, shipped


@pytest.fixture
def own(tmp_path: Path) -> Path:
    folder = tmp_path / "own"
    folder.mkdir()
    return folder


def test_values_are_filled_in_once_and_never_read_as_templates() -> None:
    text = Prompts().fill("explore_step", observation='{left} {"a": 1} {nope}', left=3)
    assert text.startswith('{left} {"a": 1} {nope}\n')
    assert "3 actions are left" in text
    with pytest.raises(KeyError):
        Prompts().fill("explore_step", observation="x")
    with pytest.raises(KeyError):
        Prompts().fill("no_such_prompt")


def test_every_stage_says_that_data_are_no_instructions() -> None:
    systems = {name: text for name, text in shipped().items() if name.endswith("_system")}
    assert set(systems) == {f"{stage}_system" for stage in ("reflect", "explore", "abstract", "execute", "judge")}
    for text in systems.values():
        assert "<data>" in text
        assert re.search("instruction|tells you how to judge", text)
    assert set(GUIDANCE.values()) | {"guidance_signal"} == {name for name in shipped() if name.startswith("guidance_")}


def test_own_files_replace_shipped_ones(own: Path) -> None:
    (own / "execute_step.md").write_text("It said {observation}.\n")
    prompts = Prompts(own)
    assert prompts.fill("execute_step", observation="ok") == "It said ok."
    assert prompts.fill("action_format") == shipped()["action_format"]


def test_files_that_cannot_be_used_are_named(own: Path) -> None:
    with pytest.raises(ConfigError, match="no folder"):
        Prompts(own / "missing")
    (own / "judg.md").write_text("x")
    with pytest.raises(ConfigError, match=r"judg\.md replaces no prompt.*judge\.md"):
        Prompts(own)
    (own / "judg.md").unlink()
    (own / "judge.md").write_text("{transcripts}")
    with pytest.raises(ConfigError, match=r"\{transcripts\}.*\{transcript\}"):
        Prompts(own)
    (own / "judge.md").write_text("x" * 60_000)
    with pytest.raises(ConfigError, match="longer than"):
        Prompts(own)


def test_each_wording_that_was_used_is_kept(own: Path, tmp_path: Path) -> None:
    copies = tmp_path / "copies"
    Prompts(None, copies).fill("execute_step", observation="ok")
    (own / "execute_step.md").write_text("{observation}")
    changed = Prompts(own, copies)
    changed.fill("execute_step", observation="ok")
    changed.fill("execute_step", observation="ok again")
    kept = {path.name: path.read_text() for path in copies.iterdir()}
    assert set(kept.values()) == {"{observation}", shipped()["execute_step"]}
    assert all(re.fullmatch(r"execute_step-[0-9a-f]{8}\.md", name) for name in kept)
