"""Measuring batch statistics anew, on a handful of images."""

import sys
from pathlib import Path

from safetensors.torch import load_file, save_file

from binaryrelax.lab.engine import FINAL_NAME
from tests.lab.tiny import tiny_data, tiny_recipe

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
import recalibrate
from watch_steps import started


def test_statistics_that_are_wrong_are_put_right(tiny_runs, tmp_path):
    recipe, data = tiny_recipe("ternary"), tiny_data()
    network = load_file(tiny_runs / "tiny-ternary" / FINAL_NAME)
    for name, tensor in network.items():
        if name.endswith("running_mean"):
            tensor += 10
    save_file(network, tmp_path / FINAL_NAME)
    right = recalibrate.before_and_after(recipe, 0, tiny_runs / "tiny-ternary" / FINAL_NAME, data)
    wrong = recalibrate.before_and_after(recipe, 0, tmp_path / FINAL_NAME, data)
    assert wrong["recalibrated"] == right["recalibrated"] > wrong["as_trained"]


def test_phase_two_is_watched_without_disturbing_the_training():
    recipe, data = tiny_recipe("binary"), tiny_data()
    initial = started(tiny_recipe("float"), data).model.state_dict()
    record = recalibrate.phase_two(recipe, 0, data, initial)
    assert list(record) == ["recipe", "seed", "at_x", "projected", "an_epoch_later"]
    plain = started(recipe, data, initial)
    recalibrate._train(plain, recipe.phase_two_epoch + 1)
    assert record["an_epoch_later"]["as_trained"] == plain.evaluation.accuracies()["accuracy"]
