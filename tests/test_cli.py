"""The command: every subcommand on a real small run, and what it says when something is wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from coevolve_lab import environments
from coevolve_lab.cli import DEMO_CONFIG, main, parser, settings
from coevolve_lab.errors import ConfigError
from coevolve_lab.store import RunReader
from tests import loop_world

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with small.yaml, its warm start cached, and `first`: a finished run of one round."""
    folder = tmp_path_factory.mktemp("cli")
    (folder / "small.yaml").write_text(yaml.safe_dump(loop_world.CONFIG | {"rounds": 1}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COEVOLVE_CACHE", str(folder / "cache"))
        patch.setenv("BROWSER_PATH", str(folder / "no-browser"))
        patch.chdir(folder)
        assert main(["demo", "--config", "small.yaml", "--run-dir", "first"]) == 0
        yield folder


@pytest.fixture
def say(home: Path, capsys: pytest.CaptureFixture[str]):
    """Runs a command: (exit code, what it printed, what it complained about)."""

    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([str(a) for a in arguments])
        return code, *capsys.readouterr()

    return run


def test_the_demo_tells_each_round_and_where_everything_is(say) -> None:
    code, out, _ = say("demo", "--config", "small.yaml", "--run-dir", "told")
    assert code == 0
    assert "No LLM, no GPU" in out
    assert "wrong on purpose" not in out  # nothing is planted in the toy world
    assert "round 0/1" in out
    assert "round 1/1 | reward" in out
    assert "accepted" in out
    assert "before " in out
    assert "after " in out
    assert Path("told/figures/score_per_step.html").is_file()
    assert Path("told/run.duckdb").is_file()


def test_a_finished_demo_is_shown_and_not_run_again(say) -> None:
    before = RunReader("first").table("stage_costs").height
    code, out, _ = say("demo", "--config", "small.yaml", "--run-dir", "first")
    assert code == 0
    assert "is finished (1 rounds)" in out
    assert "after " in out
    assert RunReader("first").table("stage_costs").height == before


def test_an_interrupted_demo_goes_on_without_evaluating_twice(say) -> None:
    assert say("demo", "--config", "small.yaml", "--run-dir", "cut", "--rounds", "0")[0] == 0
    code, out, _ = say("demo", "--config", "small.yaml", "--run-dir", "cut")
    assert code == 0
    assert "was left after round 0" in out
    steps = RunReader("cut").table("evaluations")["step"].to_list()
    assert steps == [0, loop_world.CONFIG["training"]["steps_per_round"]]


def test_fresh_makes_a_folder_beside(say) -> None:
    code, out, _ = say("demo", "--config", "small.yaml", "--run-dir", "first", "--rounds", "0", "--fresh")
    assert code == 0
    assert "first-2" in out
    assert RunReader("first-2").committed_round == 0


def test_a_demo_folder_of_another_config_names_the_way_out(say) -> None:
    Path("other.yaml").write_text("base: small.yaml\nseed: 7\n")
    code, _, complaint = say("demo", "--config", "other.yaml", "--run-dir", "first")
    assert code == 2
    assert "seed: was 0, now 7" in complaint
    assert "--fresh" in complaint


def test_run_resume_evaluate_and_show(say) -> None:
    assert say("run", "small.yaml", "second", "--set", "seed=3", "--rounds", "0")[0] == 0
    assert RunReader("second").config["seed"] == 3
    assert RunReader("second").committed_round == 0
    code, out, _ = say("resume", "second")
    assert code == 0
    assert "1 of 1 rounds committed" in out
    code, out, _ = say("evaluate", "second", "--split", "test")
    assert code == 0
    assert "on 6 tasks after step 2" in out
    code, out, _ = say("show", "second")
    assert code == 0
    assert "| round | steps | reward" in out


def test_sql(say) -> None:
    code, out, _ = say("sql", "first", "select count(*) as n from evaluations")
    assert code == 0
    assert "| 2" in out
    assert say("sql", "first", "select count(*) as n from evaluations", "--csv")[1] == "n\n2\n"
    code, _, complaint = say("sql", "first", "drop table tasks")
    assert code == 2
    assert "one SELECT" in complaint


def test_figures_without_a_browser_are_html(say) -> None:
    code, out, _ = say("figures", "first", "--out", "pictures")
    assert code == 0
    assert "no PNG files: images need a Chromium" in out
    assert {"solve_rates.html", "cost_share.html"} <= set(os.listdir("pictures"))


def test_an_environment_of_ones_own_is_imported_first(say, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "_REGISTERED", {})
    code, out, _ = say("figures", "first", "--out", "without")
    assert code == 0
    assert "no solve rates by tool: no environment is called 'loop-toy'" in out
    assert "cost_share.html" in os.listdir("without")
    export = ["export", "first", "--to", "tasks.jsonl"]
    code, _, complaint = say(*export)
    assert code == 2
    assert "no environment is called 'loop-toy'" in complaint
    Path("own_world.py").write_text(
        "from coevolve_lab.environments import register_environment\n"
        "from tests.loop_world import LoopToy\n"
        "register_environment('loop-toy', LoopToy)\n"
    )
    assert say(*export, "--import", "own_world.py")[0] == 0
    assert Path("tasks.jsonl").is_file()
    for command in (["demo"], ["run", "a", "b"], ["resume", "a"], ["evaluate"], ["figures", "a"], ["import", "a", "b"]):
        assert parser().parse_args([*command, "--import", "one", "--import", "two.py"]).imports == ["one", "two.py"]


def test_snapshot(say) -> None:
    code, out, _ = say("snapshot", "first")
    assert code == 0
    assert Path(out.strip()).name == "run.duckdb"


def test_fork_changes_settings_and_shares_rounds(say) -> None:
    code, out, _ = say("fork", "first", "--round", "0", "--to", "no-rare", "--set", "signals.rare=null")
    assert code == 0
    assert "resume" in out
    other = RunReader("no-rare")
    assert other.config["signals"]["rare"] is None
    assert other.committed_round == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "nowhere.yaml", "x"], "no file nowhere.yaml"),
        (["run", "small.yaml", "x", "--set", "training.learningrate=1"], "did you mean 'learning_rate'"),
        (["run", "small.yaml", "x", "--set", "seed"], "--set takes key.path=value"),
        (["show", "nothing-here"], "does not exist"),
        (["fork", "first", "--round", "9"], "has no round 9"),
        (["logs", "."], "is not a run"),
        (["run", ".", "x"], ".: Is a directory"),
        (["resume", "first", "--import", "no_such_module"], "--import: No module named 'no_such_module'"),
        (["resume", "first", "--import", "nowhere.py"], "nowhere.py is not a file"),
        (["doctor", "--set", "seed=1"], "name that CONFIG too"),
    ],
)
def test_errors_are_one_message_without_a_traceback(say, arguments: list[str], words: str) -> None:
    code, _, complaint = say(*arguments)
    assert code == 2
    assert complaint.startswith("coevolve-lab: ")
    assert words in complaint
    assert "Traceback" not in complaint


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["reproduce", "table5", "--seeds", "-1"], "'-1' is not a whole number from 0"),
        (["resume", "first", "--rounds", "half"], "'half' is not a whole number from 0"),
        (["reproduce", "table5", "--jobs", "0"], "'0' is not a whole number from 1"),
    ],
)
def test_counts_that_are_none(capsys: pytest.CaptureFixture[str], arguments: list[str], words: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert words in capsys.readouterr().err


def test_settings_are_read_as_yaml() -> None:
    assignments = ["training.learning_rate=1e-4", "signals.rare=null", "training.betas=[0.9, 0.95]", "name=a=b"]
    assert settings([*assignments, "training.kl_coef=0"]) == {
        # YAML wants 1.0e-4 for a number; the config reads the text as one
        "training": {"learning_rate": "1e-4", "betas": [0.9, 0.95], "kl_coef": 0},
        "signals": {"rare": None},
        "name": "a=b",
    }


@pytest.mark.parametrize("text", ["", "=1", "a..b=1", "a=[1"])
def test_settings_that_cannot_be_read(text: str) -> None:
    with pytest.raises(ConfigError, match="--set"):
        settings([text])


def test_a_setting_below_a_value() -> None:
    with pytest.raises(ConfigError, match="'training' was set to a value"):
        settings(["training=1", "training.kl_coef=0"])


@pytest.mark.slow
def test_ctrl_c_says_how_to_go_on(home: Path) -> None:
    code = "from tests import loop_world; import sys; from coevolve_lab.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "demo", "--config", "small.yaml", "--run-dir", "stopped", "--rounds", "50"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    child = subprocess.Popen(
        command, cwd=home, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    for line in child.stdout:
        if line.startswith("round 1/"):
            break
    child.send_signal(signal.SIGINT)
    _, complaint = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "Go on with: coevolve-lab demo --config small.yaml --run-dir stopped" in complaint
    assert "Traceback" not in complaint
    assert (RunReader(home / "stopped").committed_round or 0) >= 1


def test_the_module_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "coevolve_lab", "--help"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0
    assert "demo" in done.stdout


def test_the_default_config_is_there() -> None:
    assert (ROOT / DEMO_CONFIG).is_file()
    assert parser().parse_args(["demo"]).config == DEMO_CONFIG


def test_lists_do_not_fit_into_csv(say) -> None:
    code, _, complaint = say("sql", "first", "select id, turns from tasks", "--csv")
    assert code == 2
    assert "turns" in complaint
