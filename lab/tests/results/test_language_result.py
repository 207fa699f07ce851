"""Results of runs on text, read back and told from those of images."""

import json
import math

import pytest
from lab.tests.support.made_up import made_up_language_result, made_up_result, write_result

from binaryrelax_lab.recipes import find_recipe
from binaryrelax_lab.results import LanguageResult, collect_runs, result_from_json

RECIPE = find_recipe("lm-small-relax-ternary")


def test_a_result_is_read_back_as_it_was():
    result = result_from_json(made_up_language_result(RECIPE))
    assert isinstance(result, LanguageResult)
    again = result_from_json(json.loads(json.dumps(result.to_json())))
    assert again == result and again.loss == result.score("validation").loss


def test_epochs_tell_loss_perplexity_and_bits_per_byte():
    epoch = made_up_language_result(RECIPE)["epochs"][-1]
    told = result_from_json(made_up_language_result(RECIPE)).to_json()["epochs"][-1]
    assert told["perplexity"] == pytest.approx(math.exp(epoch["loss"]))
    assert told["bits_per_byte"] == epoch["bits_per_byte"]


def test_the_best_loss_is_the_least_of_phase_two():
    result = result_from_json(made_up_language_result(RECIPE))
    assert result.best == min(record.loss for record in result.phase_two)


@pytest.mark.parametrize(
    ("part", "value", "problem"),
    [
        ("epochs", [{"loss": None}], "epoch 0 has no loss"),
        ("summary", {"last": 3.0, "best_phase_two": None, "texts": [1]}, "texts are no record"),
        (
            "summary",
            {"last": 3.0, "best_phase_two": None, "texts": {"validation": {"loss": 1.0}}},
            "score of validation is not complete",
        ),
        (
            "summary",
            {"last": 3.0, "best_phase_two": None, "texts": {}, "samples": "She said"},
            "samples are not a list",
        ),
    ],
)
def test_what_is_no_result_is_refused(part, value, problem):
    with pytest.raises(ValueError, match=problem):
        result_from_json(made_up_language_result(RECIPE) | {part: value})


def test_a_text_that_was_not_measured_is_named():
    with pytest.raises(ValueError, match="not measured on wikipedia, but on validation"):
        result_from_json(made_up_language_result(RECIPE)).score("wikipedia")


def test_a_folder_may_hold_runs_on_images_and_on_text(tmp_path):
    write_result(tmp_path, made_up_result(find_recipe("demo-binary")))
    write_result(tmp_path, made_up_language_result(RECIPE))
    found = collect_runs(tmp_path)
    assert [run.name for run in found.runs] == ["demo-binary"]
    assert [run.name for run in found.language] == [RECIPE.name] and found.notes == []


def test_a_summary_that_disagrees_with_its_epochs_is_noted(tmp_path):
    result = made_up_language_result(RECIPE)
    result["summary"]["best_phase_two"] = result["epochs"][0]["loss"]  # the worst
    write_result(tmp_path, result)
    assert "disagrees with its epochs" in collect_runs(tmp_path).notes[0]
