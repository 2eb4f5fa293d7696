"""The labelled set of ``benchmarks/judge_agreement.py`` is what its labels say, and its table counts what was said."""

from __future__ import annotations

import pytest

from benchmarks.judge_agreement import LABELS, STAND_IN, check, compared, labelled_drafts, main, table
from coevolve_lab.environments.bfcl.calls import parse_call
from coevolve_lab.environments.bfcl.environment import BFCLEnvironment
from coevolve_lab.evolution.start_states import replayed
from coevolve_lab.records import Judgement, Outcome, TaskDraft, Verdict

COUNT = 3


@pytest.fixture(scope="module")
def bfcl() -> BFCLEnvironment:
    return BFCLEnvironment(explore_starts=16, held_out_tasks=0)


@pytest.fixture(scope="module")
def drafts(bfcl: BFCLEnvironment) -> dict[str, list[TaskDraft]]:
    return labelled_drafts(bfcl, COUNT)


def test_every_label_is_about_the_same_words_and_starts(
    bfcl: BFCLEnvironment, drafts: dict[str, list[TaskDraft]]
) -> None:
    assert tuple(drafts) == LABELS
    gold = drafts["gold"]
    for label, made in drafts.items():
        assert [draft.id for draft in made] == [f"{label}-{i}" for i in range(COUNT)]
        assert [(d.turns, d.start) for d in made] == [(d.turns, d.start) for d in gold]
        assert label == "gold" or all(d.solution != g.solution for d, g in zip(made, gold, strict=True))
    assert labelled_drafts(bfcl, COUNT) == drafts


def test_a_wrong_parameter_is_one_argument_and_still_works(
    bfcl: BFCLEnvironment, drafts: dict[str, list[TaskDraft]]
) -> None:
    for wrong, right in zip(drafts["parameter"], drafts["gold"], strict=True):
        pairs = list(zip(map(parse_call, wrong.solution[0]), map(parse_call, right.solution[0]), strict=True))
        assert [a.name for a, _ in pairs] == [b.name for _, b in pairs]
        assert sum(a.kwargs[name] != b.kwargs[name] for a, b in pairs for name in b.kwargs) == 1
        assert replayed(bfcl, wrong.start, wrong.solution[0]) == list(wrong.solution[0])


def test_execution_refuses_what_does_nothing_and_cannot_see_what_was_asked(
    bfcl: BFCLEnvironment, drafts: dict[str, list[TaskDraft]]
) -> None:
    outcomes = {label: {verdict.outcome for verdict in check(bfcl, drafts[label])} for label in LABELS}
    assert {label: outcomes[label] for label in ("gold", "no-op", "echo")} == {
        "gold": {"accepted"},
        "no-op": {"discarded"},
        "echo": {"discarded"},
    }
    assert outcomes["parameter"] == outcomes["cut"] == outcomes["look"] == {"accepted"}  # see the module's docstring


def test_the_table_counts_both_sides(capsys: pytest.CaptureFixture[str]) -> None:
    outcomes: list[Outcome] = ["accepted", "accepted", "accepted", "discarded"]
    verdicts = [Verdict(f"v{i}", f"d{i}", outcome, "why", 1) for i, outcome in enumerate(outcomes)]
    judgements = [Judgement(f"j{i}", f"d{i}", 1, success) for i, success in enumerate([True, False, None, False])]
    row = compared("cut", verdicts, judgements)
    assert row == ("cut", 4, 3, 1, 2, 1, 1, "why 4")
    assert table([row]).splitlines()[1].split() == ["cut", "4", "3", "1", "2", "1", "1", "why", "4"]

    rows = {row.label: row for row in main(["--drafts", "2", "--show", "1"])}
    said = capsys.readouterr().out
    assert said.count(STAND_IN) == 2
    assert tuple(rows) == LABELS
    assert (rows["gold"].check, rows["gold"].judge, rows["gold"].agree) == (2, 2, 2)
    assert rows["no-op"].check == 0
    assert {row.agree + row.disagree + row.silent for row in rows.values()} == {2}
    assert "no-op-0: the check says discarded (unsolved), the judge True" in said


def test_an_address_without_a_model_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--base-url", "http://127.0.0.1:9/v1"])
    assert "which of the models there judges?" in capsys.readouterr().err
