"""Measuring batch statistics anew, on a handful of images."""

import pytest
import torch
from lab.tests.support.tiny import METHODS, tiny_data, tiny_recipe
from safetensors.torch import load_file, save_file
from torch import nn

from binaryrelax_lab.engine import FINAL_NAME, RESULT_NAME, Machine, read_json
from binaryrelax_lab.engine.recalibration import recalibrated
from binaryrelax_lab.studies.batch_statistics import before_and_after, phase_two
from binaryrelax_lab.studies.finding import add_to_finding
from binaryrelax_lab.studies.quantized_training import started, train_epochs


def test_statistics_that_are_wrong_are_put_right(tiny_runs, tmp_path):
    recipe, data = tiny_recipe("ternary"), tiny_data()
    network = load_file(tiny_runs / "tiny-ternary" / FINAL_NAME)
    for name, tensor in network.items():
        if name.endswith("running_mean"):
            tensor += 10
    save_file(network, tmp_path / FINAL_NAME)
    right = before_and_after(recipe, 0, tiny_runs / "tiny-ternary" / FINAL_NAME, data)
    wrong = before_and_after(recipe, 0, tmp_path / FINAL_NAME, data)
    assert wrong["recalibrated"] == right["recalibrated"] > wrong["as_trained"]


@pytest.mark.parametrize("method", METHODS)
def test_a_run_tells_its_accuracy_with_new_statistics(method, tiny_runs):
    folder = tiny_runs / f"tiny-{method}"
    record = before_and_after(tiny_recipe(method), 0, folder / FINAL_NAME, tiny_data())
    summary = read_json(folder / RESULT_NAME)["summary"]
    assert (summary["last"], summary["last_recalibrated"]) == (
        record["as_trained"],
        record["recalibrated"],
    )


def test_statistics_are_averages_inside_and_come_back_after():
    torch.manual_seed(0)
    norm, images = nn.BatchNorm2d(3), [torch.randn(4, 3, 5, 5) + shift for shift in range(4)]
    norm(torch.randn(4, 3, 5, 5))
    before = {name: tensor.clone() for name, tensor in norm.state_dict().items()}
    with recalibrated(norm, images, Machine()):
        means, variances = (
            torch.stack([f(batch.transpose(0, 1).flatten(1), dim=1) for batch in images]).mean(0)
            for f in (torch.mean, torch.var)
        )
        torch.testing.assert_close(norm.running_mean, means)
        torch.testing.assert_close(norm.running_var, variances)
    with pytest.raises(ZeroDivisionError), recalibrated(norm, images, Machine()):
        raise ZeroDivisionError
    assert norm.momentum == 0.1 and norm.training
    for name, tensor in norm.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_networks_are_added_to_those_of_earlier_calls(tmp_path):
    old, other = ({"recipe": name, "seed": 0, "recalibrated": 1.0} for name in ("b", "a"))
    new = old | {"recalibrated": 2.0}
    for records in ([old], [other], [new]):
        add_to_finding(tmp_path / "found.json", records, key=("recipe", "seed"), batches=100)
    content = read_json(tmp_path / "found.json")
    assert list(content) == ["environment", "batches", "records"]
    assert content["records"] == [other, new]


def test_phase_two_is_watched_without_disturbing_the_training():
    recipe, data = tiny_recipe("binary"), tiny_data()
    initial = started(tiny_recipe("float"), data).model.state_dict()
    record = phase_two(recipe, 0, data, initial)
    assert list(record) == ["recipe", "seed", "at_x", "projected", "an_epoch_later"]
    plain = started(recipe, data, initial=initial)
    train_epochs(plain, recipe.phase_two_epoch + 1)
    assert record["an_epoch_later"]["as_trained"] == plain.evaluation.measured()["accuracy"]
