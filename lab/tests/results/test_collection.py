"""Which files are taken for results, and what is said about those that are not."""

import json
import os
import shutil
from dataclasses import replace

import pytest
from lab.tests.support.made_up import made_up_result, write_result

from binaryrelax_lab.recipes import cifar10_resnet20, find_recipe
from binaryrelax_lab.report.results_page import results_page, write_report
from binaryrelax_lab.results import RunResult, collect_runs


def page_of(folder):
    return results_page(collect_runs(folder))


def test_run_folders_are_found_with_or_without_histograms(tmp_path):
    for number, recipe in enumerate([cifar10_resnet20("bwn"), cifar10_resnet20("binary")]):
        folder = tmp_path / "deep" / recipe.name
        folder.mkdir(parents=True)
        (folder / "result.json").write_text(json.dumps(made_up_result(recipe)))
        if number:
            (folder / "histograms.json").write_text("damaged, but nobody asks for it")
    collection = collect_runs(tmp_path)
    assert len(collection.runs) == 2
    assert collection.notes == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "not valid JSON"),
        ("[1]", "it is no result of a run"),
        ("{}", "recipe is missing"),
        ('{"recipe": 3}', "recipe should be dict"),
        (b"\xff\xfe", "not valid JSON"),
        ("[" * 100_000, ""),
    ],
)
def test_damaged_or_foreign_file_is_named_on_the_page(tmp_path, content, reason):
    write_result(tmp_path, made_up_result(cifar10_resnet20("bwn")))
    damaged = tmp_path / "cifar10" / "seed3.json"
    damaged.write_bytes(content if isinstance(content, bytes) else content.encode())
    summary = write_report(tmp_path, tmp_path / "report.html")
    [note] = summary.notes
    assert note.startswith("cifar10/seed3.json is left out: ")
    assert reason in note
    assert "\n" not in note
    assert summary.num_runs == 1
    assert "cifar10/seed3.json is left out" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("epochs", [], "no epochs"),
        ("epochs", [{"accuracy": None}], "epoch 0 has no accuracy"),
        ("epochs", [{"accuracy": float("nan")}], "epoch 0 has no accuracy"),
        ("epochs", [{"accuracy": 1.0, "strength": "big"}], "something else than numbers"),
        ("summary", {}, "summary"),
        ("summary", {"last": 90.0, "best_phase_two": "good"}, "summary"),
        ("weights", {"layers": 3}, "layers"),
        ("weights", {"layers": [], "size": "x"}, "its size is no record"),
        ("summary", {"last": 90.0, "last_recalibrated": "x"}, "something else than numbers"),
        ("environment", "a computer", "environment should be dict"),
        ("recipe", {"name": "x"}, "recipe is not complete"),
    ],
)
def test_incomplete_result_is_refused_with_the_reason(key, value, reason):
    result = made_up_result(cifar10_resnet20("bwn"))
    RunResult.from_json(result)
    with pytest.raises(ValueError, match=reason):
        RunResult.from_json({**result, key: value})


@pytest.mark.parametrize(
    ("keys", "value", "reason"),
    [
        (["seconds"], "x", "its seconds are not a number"),
        (["summary", "last"], 10**400, "not valid JSON (a number beyond measure)"),
        (["recipe", "lr"], -(10**400), "not valid JSON (a number beyond measure)"),
        (["summary", "in_q"], [], "its in_q is neither true nor false"),
        (["environment", "git_commit"], [], "its git_commit is not a name"),
        (["weights", "size"], [1], "its size is no record"),
        (["recipe", "quantizer"], ["x"], "its quantizer is not a name"),
        (["environment", "device"], "\ud800", "it holds characters that do not exist"),
        (["recipe", "name"], "\ud800", "it holds characters that do not exist"),
    ],
    ids=["seconds", "last", "lr", "in_q", "git_commit", "size", "quantizer", "device", "name"],
)
@pytest.mark.parametrize("page", ["report.html", "report.md"])
def test_strange_result_is_left_out_and_does_not_fail_the_report(
    keys, value, reason, page, tmp_path
):
    write_result(tmp_path, made_up_result(cifar10_resnet20("bwn")))
    result = made_up_result(cifar10_resnet20("binary"))
    inner = result
    for key in keys[:-1]:
        inner[key] = inner = dict(inner[key])
    inner[keys[-1]] = value
    (tmp_path / "seed9.json").write_text(json.dumps(result))
    summary = write_report(tmp_path, tmp_path / page)
    [note] = summary.notes
    assert note.startswith("seed9.json is left out: ") and reason in note
    assert summary.num_runs == 1


def test_a_loss_that_is_no_number_leaves_nothing_out(tmp_path):
    result = made_up_result(cifar10_resnet20("bwn"))
    result["epochs"][0] |= {"train_loss": float("nan"), "lr": "x"}
    write_result(tmp_path, result)
    assert write_report(tmp_path, tmp_path / "r.html").notes == ()


def test_name_of_a_file_may_be_any_bytes(tmp_path):
    write_result(tmp_path, made_up_result(cifar10_resnet20("bwn")))
    (tmp_path / os.fsdecode(b"seed\xff.json")).write_text("{")
    assert write_report(tmp_path, tmp_path / "r.html").notes[0].startswith("seed?.json is left out")


def test_unfinished_run_is_not_dropped_in_silence(tmp_path):
    write_result(tmp_path, made_up_result(cifar10_resnet20("bwn")))
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    assert collect_runs(tmp_path).notes == ["run is left out: its training is not finished"]


def test_copies_of_a_run_count_once(tmp_path):
    path = write_result(tmp_path, made_up_result(cifar10_resnet20("float")))
    (tmp_path / "run").mkdir()
    shutil.copy(path, tmp_path / "run" / "result.json")
    collection = collect_runs(tmp_path)
    assert len(collection.runs) == 1
    assert collection.notes == ["Copies of a run that is counted once already: run/result.json"]


def test_two_results_of_one_seed_are_both_shown_and_noted(tmp_path):
    recipe = cifar10_resnet20("float")
    write_result(tmp_path / "a", made_up_result(recipe, last=90.0))
    write_result(tmp_path / "b", made_up_result(recipe, last=91.0))
    collection = collect_runs(tmp_path)
    assert len(collection.runs) == 2
    assert "cifar10-resnet20-float, seed 0: 2 different results, their mean" in collection.notes[0]


def test_run_with_other_settings_than_its_recipe_is_noted(tmp_path):
    recipe = replace(cifar10_resnet20("binary"), lr=0.5)
    write_result(tmp_path, made_up_result(recipe))
    short = replace(find_recipe("demo-twn").with_epochs(12), momentum=0.5)
    write_result(tmp_path, made_up_result(short))
    changed = replace(find_recipe("demo-twn+lr=0.05@12"), momentum=0.5)
    write_result(tmp_path, made_up_result(changed))
    beyond = replace(find_recipe("demo-binary"), name="demo-binary+growth=1e300@3")
    write_result(tmp_path, made_up_result(beyond))
    notes = collect_runs(tmp_path).notes
    assert "not those of the recipe cifar10-resnet20-binary: lr=0.5 (today 0.1)" in notes[0]
    assert "of the recipe demo-twn+lr=0.05@12: momentum=0.5 (today 0.9)" in notes[1]
    assert "not those of the recipe demo-twn@12: momentum=0.5 (today 0.9)" in notes[2]
    assert len(notes) == 3


def test_contradictions_inside_a_result_are_noted(tmp_path):
    result = made_up_result(cifar10_resnet20("binary"))
    result["summary"] |= {"last": 99.0, "in_q": False}
    write_result(tmp_path, result)
    notes = " ".join(collect_runs(tmp_path).notes)
    assert "its summary (last 99.0, best 90.3) disagrees with its epochs" in notes
    assert "its final weights are not known to be in Q" in notes
    assert "NOT in Q" in page_of(tmp_path)


def test_empty_folder_is_an_error_that_says_what_was_looked_for(tmp_path):
    with pytest.raises(ValueError, match=r"no result of a run; looked for .*seed<k>\.json"):
        write_report(tmp_path, tmp_path / "report.html")
    (tmp_path / "seed0.json").write_text("{")
    with pytest.raises(ValueError, match=r"looked for .*seed0\.json is left out"):
        write_report(tmp_path, tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_what_is_no_folder_is_refused(tmp_path):
    with pytest.raises(ValueError, match="is not a folder"):
        write_report(tmp_path / "nowhere", tmp_path / "report.html")
