"""``coevolve-lab reproduce`` as a user types it, at smoke size, from the project's own files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from coevolve_lab.cli import main

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reproduce")


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, out: Path):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("BROWSER_PATH", str(out / "no-browser"))  # images have tests of their own

    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        return main(["reproduce", *arguments, "--out", str(out)]), *capsys.readouterr()

    return run


def test_the_list_has_every_table_and_figure(say) -> None:
    code, listed, _ = say("--list")
    assert code == 0
    for name in ("table1 ", "table15", "figure3c", "figure7", "question"):
        assert name in listed
    assert "settings, not results" in next(line for line in listed.splitlines() if "table9" in line)


def test_a_dry_run_plays_nothing_and_says_how_long_it_would_take(say, out: Path) -> None:
    code, said, _ = say("table8", "--scale", "tiny", "--dry-run", "--jobs", "1")
    assert code == 0
    assert "scale's own statement" in said
    assert said.strip().splitlines()[-1].startswith("about ")
    assert not (out / "runs").exists()


@pytest.mark.parametrize("arguments", [["--list"], ["table10", "--dry-run"]])
def test_looking_loads_no_model_library(arguments: list[str], out: Path) -> None:
    command = ["reproduce", *arguments, "--out", str(out)]
    code = f"import sys; from coevolve_lab.cli import main; assert main({command}) == 0; "
    code += "print(sorted(sys.modules.keys() & {'torch', 'transformers'}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.slow
def test_a_table_is_made_from_runs_of_ones_own(say, out: Path) -> None:
    code, said, _ = say("table8", "--scale", "smoke", "--jobs", "2")
    assert code == 0
    page = (out / "results" / "table8-smoke" / "results.md").read_text()
    assert str(out / "results" / "table8-smoke" / "results.md") in said
    assert "Runs: 2 of 2 finished" in page
    assert "published: Yang et al. 2026, arXiv:2604.15840v1, table 8" in page
    assert "McNemar" in page
    assert "No images" in page
    code, again, _ = say("table8", "--scale", "smoke", "--only-results")
    assert code == 0
    assert "/3 " not in again


def test_what_cannot_be_reproduced_is_answered_in_a_sentence(say) -> None:
    assert say("tabel8")[0] == 2
    code, _, complaint = say()
    assert code == 2
    assert "--list" in complaint
    code, _, complaint = say("question", "--scale", "grand")
    assert (code, "smoke, tiny, paper" in complaint) == (2, True)
