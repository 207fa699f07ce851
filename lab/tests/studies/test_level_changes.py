"""The experiments that watch single steps, on a handful of images."""

from dataclasses import replace

import pytest
from lab.tests.support.tiny import tiny_data, tiny_recipe

from binaryrelax import Ternary
from binaryrelax_lab.recipes import Steps, cifar10_resnet20
from binaryrelax_lab.studies.level_changes import decaying, flips, jumps
from binaryrelax_lab.studies.quantized_training import started


@pytest.fixture(scope="module")
def initial():
    return started(tiny_recipe("float"), tiny_data()).model.state_dict()


@pytest.mark.parametrize("exact", [False, True])
def test_jumps_are_shares_of_each_layer(exact, initial):
    recipe = tiny_recipe("ternary")
    recipe = replace(recipe, quantizer=Ternary()) if exact else recipe
    record = jumps(recipe, tiny_data(), initial, range(1, 3))
    assert record["steps"] == 4
    assert [layer["num_weights"] for layer in record["layers"]] == [144, 4608, 18432, 73728]
    for layer in record["layers"]:
        assert 0 <= layer["level_flips"]["median"] <= layer["level_flips"]["largest"] <= 1
        assert 0 < layer["zeros"]["least"] <= layer["zeros"]["most"] < 1


def test_flips_are_counted_for_single_steps(initial):
    recipe = replace(tiny_recipe("bwn"), lr_schedule=Steps(milestones=(2, 3)))
    record = flips(recipe, tiny_data(), initial)
    assert [epoch["lr"] for epoch in record["epochs"]] == pytest.approx([0.1, 0.1, 0.01, 0.001])
    for epoch in record["epochs"]:
        assert 0 <= epoch["flips_a_step"] < 0.5 and 0 < epoch["at_the_border"] < 0.1
        assert 0 < epoch["recalibrated"] <= 100
    assert record["epochs"][0]["flips_a_step"] > record["epochs"][-1]["flips_a_step"]


def test_the_long_recipe_has_the_steps_of_the_paper():
    recipe, paper = decaying(0.0), cifar10_resnet20("bwn")
    assert (recipe.momentum, recipe.weight_decay) == (0.95, 0.0)
    for share in (0.1, 0.39, 0.41, 0.72, 0.74, 0.99):
        shortened = recipe.lr_schedule.factor(share * recipe.epochs, recipe.epochs)
        assert shortened == paper.lr_schedule.factor(share * paper.epochs, paper.epochs)
