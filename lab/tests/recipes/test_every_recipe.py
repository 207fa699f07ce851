"""Every recipe there is takes a step with its real network."""

import math

import pytest
from lab.tests.support.noise import noise_for
from torch import nn

from binaryrelax_lab.engine.inspection import is_in_q
from binaryrelax_lab.engine.trainer import Trainer
from binaryrelax_lab.recipes import ALL_RECIPES, NETWORK_NAMES, Recipe, find_recipe

LARGE = ("vgg11", "vgg16", "resnet18", "resnet34")  # a second for a step with one recipe


def recipes_of(network: str) -> list[Recipe]:
    return [recipe for recipe in ALL_RECIPES if recipe.network == network]


def take_a_step(recipe: Recipe) -> None:
    trainer = Trainer(recipe, noise_for(recipe.dataset), seed=0)
    convolutions = [m.weight for m in trainer.model.modules() if isinstance(m, nn.Conv2d)]
    assert {id(weight) for weight in trainer.weights} == {id(weight) for weight in convolutions}
    trainer.start()
    assert trainer.steps_per_epoch == 1
    before = trainer.model.fc.weight.detach().clone()
    assert len(list(trainer.steps())) == 1
    assert not before.equal(trainer.model.fc.weight)
    assert math.isfinite(trainer.loss_sum)
    [group] = trainer.optimizer.param_groups
    assert (group["lr"], group["momentum"]) == (recipe.lr, recipe.momentum)
    assert group["weight_decay"] == recipe.weight_decay
    assert trainer.strength == recipe.initial_strength
    assert trainer.phase == (None if recipe.quantizer is None else 1 + (not recipe.is_relaxed))
    if trainer.phase == 2:
        smallest = min(convolutions, key=lambda weight: weight.numel())
        assert is_in_q(smallest.detach(), recipe.quantizer)


def test_every_network_has_recipes():
    assert {recipe.network for recipe in ALL_RECIPES} == set(NETWORK_NAMES)


@pytest.mark.parametrize("network", NETWORK_NAMES)
def test_recipes_take_a_step(network):
    """All recipes of the small networks; of a large one, ternary and exact, 10 and 100 classes."""
    recipes = recipes_of(network)
    if network in LARGE:
        names = (f"cifar10-{network}-ternary", f"cifar100-{network}-ternary-exact")
        recipes = [find_recipe(name) for name in names]
    for recipe in recipes:
        take_a_step(recipe)


@pytest.mark.slow
@pytest.mark.parametrize("network", LARGE)
def test_all_recipes_of_a_large_network_take_a_step(network):
    for recipe in recipes_of(network):
        take_a_step(recipe)
