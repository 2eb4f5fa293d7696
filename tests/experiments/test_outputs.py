"""Every output on invented runs: numbers that come from the records, text that says what is what."""

from __future__ import annotations

import math
import shutil
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev

import polars as pl
import pytest

from coevolve_lab import paper
from coevolve_lab import records as r
from coevolve_lab.evaluation.paired import paired
from coevolve_lab.experiments.declaration import Place, known, load
from coevolve_lab.experiments.outputs import OUTPUTS
from coevolve_lab.experiments.outputs.artefact import markdown, shown, shown_p, signed
from coevolve_lab.experiments.outputs.gains import pairs
from coevolve_lab.experiments.plan import Plan, expand
from coevolve_lab.experiments.results import Results, collect
from coevolve_lab.store import RunWriter
from tests.experiments.conftest import AFTER, CONFIGS, EXPERIMENT, as_if
from tests.experiments.invented import STAGES, STEPS, invent

SIZES = (("here", 8), ("there", 9))


def made(name: str, results: Results, which: str | None = None):
    artefacts = {artefact.name: artefact for artefact in OUTPUTS[name](results)}
    return artefacts[which or name]


def values(results: Results, row: str, split: str = "held_out") -> list[float]:
    return results.scores.filter(row=row, column="here", split=split)["score"].to_list()


def test_every_experiment_names_outputs_that_exist() -> None:
    wanted = {name: load(name, CONFIGS).outputs for name in known(CONFIGS)}
    assert {output for outputs in wanted.values() for output in outputs} <= OUTPUTS.keys()


@pytest.mark.parametrize("name", OUTPUTS)
def test_every_output_has_a_title_and_text_and_works_without_runs(name: str, found: Results, plan: Plan) -> None:
    nothing = collect(plan, Path("no/such/folder"), "words")
    for results in (found, nothing):
        for artefact in OUTPUTS[name](results):
            assert artefact.title
            assert artefact.text
    names = [artefact.name for artefact in OUTPUTS[name](found)]
    assert len(set(names)) == len(names)


def test_scores_are_means_with_standard_errors_over_seeds(found: Results) -> None:
    own = values(found, "fixed")
    text = f"{100 * fmean(own):.1f} ± {100 * stdev(own) / math.sqrt(3):.1f} (3)"
    assert f"| {text} |" in made("scores", found).text
    row = made("scores", found).frame.filter(row="uniform", column="here").row(0, named=True)
    assert row["mean"] == pytest.approx(fmean(values(found, "uniform")))
    assert row["seeds"] == 2
    assert "here: before" in made("scores", found).text
    assert "before" not in made("scores", found, "scores_validation").text


def test_scores_come_with_the_sizes_of_the_task_sets(found: Results) -> None:
    (cell,) = (cell for cell in found.cells if (cell.arm, cell.seed) == ("fixed", 0))
    stored = found.reader(cell).table("tasks").height
    assert f"mean over seeds: fixed, here: {stored};" in made("scores", found).text


def test_published_scores_stand_in_columns_of_their_own(plan: Plan, runs: Path) -> None:
    rows = {"fixed": "synthetic_data", "uniform": "uniform_append", "feedback": "feedback"}
    results = collect(as_if(plan, "table 3", rows), runs)
    compared = made("scores", results)
    row = compared.frame.filter(method="feedback", environment="bfcl").row(0, named=True)
    assert (row["published"], row["own_seeds"]) == (63.0, 3)
    assert "bfcl: own | bfcl: published" in compared.text
    assert "appworld" not in compared.text
    hollow = [trace for trace in compared.figure.data if (trace.name or "").startswith(paper.LABEL)]
    assert sorted(hollow[0].x) == [0.58, 0.63]  # uniform append is not in the paper


def test_gains_are_paired_by_seed(found: Results) -> None:
    frame = made("gains", found).frame
    assert frame.filter(column="here").select("first", "other").rows() == pairs(["fixed", "uniform", "feedback"])
    row = frame.filter(column="here", first="fixed", other="uniform").row(0, named=True)
    first = found.scores.filter(row="fixed", column="here", split="held_out").filter(pl.col("seed") < 2)["score"]
    differences = [u - f for u, f in zip(values(found, "uniform"), first, strict=True)]
    assert (row["gain"], row["seeds"]) == (pytest.approx(fmean(differences)), 2)
    assert row["stderr"] == pytest.approx(stdev(differences) / math.sqrt(2))
    assert "nothing is corrected" in made("gains", found).text


def test_of_many_methods_each_is_compared_with_the_first_only() -> None:
    assert len(pairs([str(i) for i in range(5)])) == 10
    assert pairs([str(i) for i in range(7)]) == [("0", str(i)) for i in range(1, 7)]


def test_the_choice_is_made_on_the_validation_split_alone(found: Results) -> None:
    chosen = made("chosen", found, "chosen_here")
    seeds = (pl.col("seed") < 2) & (pl.col("split") == "validation")  # the seeds that all methods have
    valid = found.scores.filter(seeds).group_by("row", maintain_order=True).agg(pl.col("score").mean())
    best = valid.sort("score", descending=True, maintain_order=True)["row"][0]
    assert chosen.frame.filter(pl.col("chosen"))["row"].to_list() == [best]
    assert f"**{best}** (chosen)" in chosen.text
    assert "had no say" in chosen.text


def test_curves_begin_before_training(found: Results) -> None:
    frame = made("curves", found).frame
    assert frame.filter(row="fixed")["step"].to_list() == [0, 5, 10]
    assert frame.filter(row="fixed")["mean"][-1] == pytest.approx(fmean(values(found, "fixed")))


def test_tools_that_were_weakest_are_followed(found: Results) -> None:
    rates = made("tools", found, "tool_rates").frame.filter(row="feedback", column="here", seed=0)
    row = made("tools", found).frame.filter(row="feedback", column="here", seed=0).row(0, named=True)
    weak = rates.sort("before", "tool").head(max(1, rates.height // 4))
    assert row["tools_after"] == pytest.approx(rates["after"].mean())
    assert (row["weak_before"], row["weak_after"]) == pytest.approx((weak["before"].mean(), weak["after"].mean()))
    assert row["zero_variance"] == pytest.approx(7 / 16)
    assert row["effective_groups"] == 8
    assert row["task_set"] == 36


def test_cross_comparison_is_per_seed_and_over_all(found: Results) -> None:
    crossed = made("cross", found, "cross_here")
    first, other = found.by_seed("fixed", "here"), found.by_seed("feedback", "here")
    pair = paired(first[1].last.outcomes, other[1].last.outcomes)
    shares = crossed.frame.filter(seed=1)["score"].to_list()
    assert shares == pytest.approx([100 * n / pair.tasks for n in pair.counts])
    assert "all seeds" in crossed.text
    assert len(crossed.figure.data) == 1


def test_costs_are_in_the_units_of_table_7(plan: Plan, runs: Path) -> None:
    results = collect(as_if(plan, "table 7", {}), runs)
    frame = made("costs", results).frame.filter(method="bfcl")
    own = dict(frame.select("environment", "own_mean").iter_rows())
    feedback = sum(STAGES[stage] for stage in ("reflect", "explore", "abstract", "validate"))
    assert own["feedback_time_ratio_percent"] == pytest.approx(100 * feedback / sum(STAGES.values()), rel=0.25)
    assert own["single_feedback_cost_s"] == pytest.approx(feedback, rel=0.25)
    assert dict(frame.select("environment", "published").iter_rows())["single_feedback_cost_s"] == 480


def test_two_environments_are_not_mixed(tmp_path: Path) -> None:
    columns = {
        name: {"of": "bfcl", "initial": {"environment": {"options": {"held_out_tasks": n}}}} for name, n in SIZES
    }
    two = EXPERIMENT.model_copy(update={"environments": {name: Place.model_validate(c) for name, c in columns.items()}})
    arms = {name: arm.model_copy(update={"elsewhere": {}}) for name, arm in two.arms.items()}
    plan = expand(two.model_copy(update={"arms": arms, "compares": "table 15"}), "smoke", CONFIGS, seeds=[0])
    invent(plan, tmp_path, AFTER)
    results = collect(plan, tmp_path, "words")
    by_column = {artefact.name: artefact for artefact in OUTPUTS["costs"](results)}
    assert set(by_column) == {"costs", "stages_here", "stages_there"}
    for column in ("here", "there"):
        one = results.by_seed("feedback", column)[0]
        spent = results.reader(one.cell).sql("select sum(seconds) from stage_costs where round > 0").item()
        assert by_column[f"stages_{column}"].frame["seconds"].sum() == pytest.approx(spent)
        assert f"| feedback, {column} | 5 |" in made("diversity", results).text


def test_tools_of_scenarios_are_not_guessed(plan: Plan, runs: Path) -> None:
    by_scenario = replace(plan, cells=tuple(replace(c, metric="sgc", elsewhere=()) for c in plan.cells))
    (only,) = OUTPUTS["tools"](collect(by_scenario, runs, "words"))
    assert "No finished run" in only.text


def test_diversity_stands_beside_table_15_by_training_step(plan: Plan, runs: Path) -> None:
    results = collect(as_if(plan, "table 15", {}), runs, "words")
    beside = made("diversity", results, "diversity_published").frame
    row = beside.filter(method="10", environment="sr_percent").row(0, named=True)
    own = made("diversity", results).frame.filter(row="fixed", step=10)["sr_new"].to_list()
    assert (row["published"], row["own_mean"]) == (22.57, pytest.approx(100 * fmean(own)))
    assert "word vectors" in made("diversity", results).text


def test_word_vectors_are_never_laid_beside_the_papers_similarities(found: Results) -> None:
    artefact = made("similarity", found)
    assert not any((trace.name or "").startswith(paper.LABEL) for trace in artefact.figure.data)
    assert set(artefact.frame["row"]) == {"fixed", "uniform", "feedback"}
    assert artefact.frame.filter(row="uniform")["task"].len() == 2 * 24  # two seeds, two rounds of twelve


def test_maps_are_of_the_first_seed_and_hold_all_its_tasks(found: Results) -> None:
    artefact = made("map", found, "map_feedback_here")
    assert artefact.frame.height == 36
    assert "Seed 0" in artefact.text
    assert artefact.frame["step"].unique().sort().to_list() == [0, STEPS, 2 * STEPS]


def test_signals_count_seeds_without_a_kind_as_none(found: Results) -> None:
    frame = made("signals", found, "signals_feedback_here").frame
    assert frame.filter(pl.col("round") == 1)["marks"].sum() == 3 * 8
    assert frame.height == 3 * 2 * frame["kind"].n_unique()


def test_only_drafts_after_training_began_have_a_pass_rate(found: Results) -> None:
    frame = made("pass_rate", found, "pass_rate_feedback_here").frame
    assert frame.select("seed", "round").rows() == [(s, n) for s in range(3) for n in (1, 2)]
    assert frame["drafts"].to_list() == [8] * 6


def test_held_drafts_passed_and_a_draft_that_was_validated_again_counts_once(
    plan: Plan, runs: Path, tmp_path: Path
) -> None:
    (cell,) = (cell for cell in plan.cells if (cell.arm, cell.seed, cell.column) == ("feedback", 0, "here"))
    copied = shutil.copytree(runs, tmp_path / "runs")
    with RunWriter.open(copied / cell.key) as writer:
        writer.append(r.Verdict(f"again-{i}", f"d2-{i}", "held", "risk", 2) for i in range(8))
        writer.commit(2)
    frame = made("pass_rate", collect(plan, copied), "pass_rate_feedback_here").frame
    row = frame.row(by_predicate=(pl.col("seed") == 0) & (pl.col("round") == 2), named=True)
    assert (row["pass_rate"], row["drafts"]) == (1.0, 8)


def test_numbers_are_written_alike() -> None:
    assert shown([0.5], 1, 100) == "50.0 (1)"
    assert shown([1.0, 2.0, 3.0]) == "2.00 ± 0.58 (3)"
    assert shown([]) == ""
    assert (signed(1.234), signed(-0.5), signed(None)) == ("+1.23", "-0.50", "")
    assert markdown(["", "a|b"], [["x", "1"]]).splitlines() == ["|  | a\\|b |", "| --- | ---: |", "| x | 1 |"]


@pytest.mark.parametrize(("value", "text"), [(None, ""), (0.0004, "< 0.001"), (0.0006, "0.001"), (1.0, "1.000")])
def test_small_p_values_are_never_nought(value: float | None, text: str) -> None:
    assert shown_p(value) == text
