"""What the doctor finds on this machine, and on one where something is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from coevolve_lab import doctor
from coevolve_lab.cli import main
from coevolve_lab.config import Config, load_config
from coevolve_lab.doctor import Finding, examine
from coevolve_lab.environments.appworld import package as appworld
from coevolve_lab.environments.appworld.package import AppWorldPackage
from tests.background import fake_vllm

APPWORLD = {"name": "appworld"}


def findings(name: str, config: Config | None = None) -> list[Finding]:
    return [finding for finding in examine(config) if finding.name == name]


def test_a_machine_that_runs_these_tests_lacks_nothing_that_runs_need(capsys: pytest.CaptureFixture[str]) -> None:
    assert not [finding for finding in examine() if finding.needed and finding.remedy]
    assert main(["doctor"]) == 0
    assert "MISSING" not in capsys.readouterr().out


def test_what_is_missing_comes_with_its_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COEVOLVE_BFCL_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("BROWSER_PATH", raising=False)
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "MISSING  bfcl" in out
    assert "coevolve-lab install bfcl" in out
    assert "optional chromium" in out
    assert "apt-get install chromium" in out


def test_appworld_is_needed_by_its_own_runs_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COEVOLVE_APPWORLD_HOME", str(tmp_path))
    for config, needed in ((None, False), (load_config({}), False), (load_config({}, environment=APPWORLD), True)):
        (finding,) = findings("appworld", config)
        assert (finding.remedy, finding.needed) == ("coevolve-lab install appworld", needed)


@pytest.mark.appworld
def test_the_real_data_of_appworld_are_needed_where_they_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    here = appworld.find()
    bare = AppWorldPackage(here.python, here.mini_root, tmp_path)
    monkeypatch.setattr(appworld, "find", lambda: bare)
    for options, needed in (({}, False), ({"world": "mini"}, False), ({"world": "real"}, True)):
        config = load_config({}, environment={**APPWORLD, "options": options})
        (package,), (data,) = findings("appworld", config), findings("appworld data", config)
        assert (package.remedy, package.needed) == ("", True)
        assert (data.remedy, data.needed) == ("coevolve-lab install appworld-data", needed)


def test_more_threads_than_cores_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "usable_cores", lambda: 3)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (few,), (many,) = findings("threads"), findings("threads", load_config({}, threads=4096))
    assert (few.found, few.remedy) == ("1 for torch, 3 cores for this process, OMP_NUM_THREADS=1", "")
    assert many.remedy == "threads: 3 in the config"
    assert not many.needed


@pytest.mark.parametrize("key", ["", "sk-secret"])
def test_keys_are_looked_for_and_never_shown(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", key)
    monkeypatch.delenv("OTHER_KEY", raising=False)
    explorer = {"kind": "llm", "model": "m", "api_key_env": "MY_KEY", "base_url": "https://api.example.invalid/v1"}
    local = {"api_key_env": "OTHER_KEY", "base_url": "http://127.0.0.1:8000/v1"}
    config = load_config({}, evolution={"explorer": {**explorer, "roles": {"judge": local}}})
    mine, other = findings("api key", config)
    assert (mine.remedy, mine.needed) == ("" if key else "export MY_KEY=...", True)
    assert (other.remedy, other.needed) == ("export OTHER_KEY=...", False)
    assert "sk-secret" not in str(examine(config))
    assert findings("api key", load_config({})) == []


def test_a_server_engine_needs_vllm(tmp_path: Path) -> None:
    (missing,) = findings("vllm", load_config({}, engine={"kind": "vllm", "python": "/no-such-python"}))
    assert missing.needed
    assert missing.remedy.startswith("/no-such-python -m pip install")
    python = str(fake_vllm.install(tmp_path))
    (found,) = findings("vllm", load_config({}, engine={"kind": "vllm", "python": python}))
    assert (found.remedy, found.found) == ("", f"0.0 in {python}, for the CPU")
    (nobody,) = findings("vllm", load_config({}, engine={"kind": "vllm", "url": "http://127.0.0.1:9"}))
    assert "no server answers at http://127.0.0.1:9" in nobody.found
    assert nobody.remedy
    assert not any(finding.needed for finding in findings("vllm"))


def test_the_model_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def model(name: str) -> Finding:
        (finding,) = findings("model", load_config({}, policy={"model": name, "revision": "abc"}))
        return finding

    assert model(str(tmp_path)).remedy == ""
    assert model("nobody/no-such-model").remedy == "hf download nobody/no-such-model --revision abc"
    assert model("no such: name").remedy == "set policy.model to another"
    assert findings("model", load_config({}, policy={"model": "tiny"})) == []


def test_the_room_on_a_gpu_is_estimated() -> None:
    config = load_config(Path(__file__).parents[1] / "configs/bfcl-qwen3-4b.yaml")
    large, small = (doctor._room(config, "a GPU", gib) for gib in (79, 12))
    assert (large.remedy, large.needed) == ("", False)
    assert "left while training" in large.found
    assert "-" in small.found
    assert "coevolve_lab.estimate" in small.remedy
    tiny = doctor._room(load_config({"policy": {"model": "tiny", "dtype": "float32"}}), "a GPU", 79)
    assert (tiny.found.startswith("not estimated"), tiny.remedy) == (True, "")
