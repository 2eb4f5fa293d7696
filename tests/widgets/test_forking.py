"""The form that forks a run, filled in as a browser would."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from coevolve_lab import CoEvolve
from coevolve_lab.errors import ConfigError
from coevolve_lab.store import RunReader
from coevolve_lab.widgets.forking import MOST_SETTINGS, Fork, settings


@pytest.fixture
def form(finished_dir: Path, tmp_path: Path) -> Fork:
    shutil.copytree(finished_dir, tmp_path / "own")
    return Fork(tmp_path / "own")


def test_it_offers_committed_rounds_and_a_free_folder(form: Fork, tmp_path: Path) -> None:
    assert list(form.round.options) == [3, 2, 1, 0]
    assert form.round.value == 3
    assert form.folder.value == "own-fork1"
    (tmp_path / "own-fork1").mkdir()
    form.refresh()
    assert form.folder.value == "own-fork2"
    assert "0, 1, 2, 3" in form._repr_mimebundle_()["text/plain"]


def test_a_click_makes_the_fork_with_its_settings(form: Fork, tmp_path: Path) -> None:
    form.round.value, form.changes.value = 1, "signals: {rare: null}\nrounds: 5"
    form.make.click()
    assert not form.error
    assert form.made_dir == tmp_path / "own-fork1"
    made = RunReader(form.made_dir)
    assert list(made.manifests()) == [0, 1]
    assert made.config["signals"]["rare"] is None
    assert made.config["rounds"] == 5
    assert f"CoEvolve.open(&#x27;{form.made_dir}&#x27;)" in form.made.value
    with CoEvolve.open(form.made_dir, progress=False) as other:
        assert other.reader.committed_round == 1
    assert form.folder.value == "own-fork2"  # for the next one


def test_a_run_that_is_being_driven_keeps_what_is_not_committed(own_run: CoEvolve) -> None:
    own_run.train(own_run.rollout())
    step = own_run.step
    form = Fork(own_run)
    form.make.click()
    assert not form.error
    assert RunReader(form.made_dir).committed_round == 3
    own_run.train(own_run.rollout())  # the lock and the round in progress are still its own
    assert own_run.step == step + 1


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("signals: {rarre: null}", "did you mean &#x27;rare&#x27;"),
        ("signals: [", "not valid YAML"),
        ("- rounds", "as settings with their values"),
        ("3: 4", "as settings with their values"),
        ("rounds: many", "valid integer"),
    ],
)
def test_what_is_wrong_is_said_in_the_form_and_nothing_is_made(form: Fork, typed: str, said: str) -> None:
    form.changes.value = typed
    form.make.click()
    assert said in form.error
    assert not (form._run_dir.parent / "own-fork1").exists()
    form.changes.value = ""
    form.make.click()
    assert not form.error
    assert form.made_dir.exists()


def test_a_folder_that_is_taken_is_not_touched(form: Fork) -> None:
    form.folder.value = "own"
    form.make.click()
    assert "exists already" in form.error
    assert not form.made.value.count("CoEvolve.open")


def test_a_run_without_commits_cannot_be_forked_yet(form: Fork, tmp_path: Path) -> None:
    shutil.copytree(tmp_path / "own", tmp_path / "young")
    for path in (tmp_path / "young" / "rounds").iterdir():
        path.unlink()
    young = Fork(tmp_path / "young")
    assert young.make.disabled
    assert not young.error


@pytest.mark.parametrize(
    "hostile",
    [
        "a: " + "x" * MOST_SETTINGS,
        "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]",
        "[" * 3000,
        "- " * 1900,
        "!!python/object/apply:os.system [echo]",
        "rounds: 2020-99-99",
    ],
)
def test_hostile_settings_are_refused(hostile: str) -> None:
    with pytest.raises(ConfigError):
        settings(hostile)


def test_nothing_typed_changes_nothing() -> None:
    assert settings("  \n# only a remark") == {}


def test_a_fork_is_no_part_of_the_run_that_it_leaves(form: Fork, tmp_path: Path) -> None:
    form.folder.value = "own/inside"
    form.make.click()
    assert "inside the run" in form.error
    assert not (tmp_path / "own" / "inside").exists()


def test_settings_named_like_a_parameter_are_settings(form: Fork) -> None:
    form.changes.value = "source: 1"
    form.make.click()
    assert "unknown key" in form.error
