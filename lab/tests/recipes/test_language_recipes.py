"""The recipes of language models: names, λ, and conversions of any length."""

import math

import pytest

from binaryrelax import Hard, LinearMix, Ternary, TernaryAbsMean
from binaryrelax_lab.recipes import (
    LANGUAGE_METHOD_NAMES,
    LANGUAGE_SEARCHES,
    LANGUAGE_TABLES,
    Triangle,
    find_recipe,
)

STEPS = 10  # of an epoch
RECIPES = [recipe for table in LANGUAGE_TABLES.values() for recipe in table]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_names_tell_size_method_and_start(recipe):
    end = "-from-float" if recipe.starts_from else ""
    assert recipe.name == f"{recipe.name.family}-{recipe.method}{end}"
    assert recipe.name.family in LANGUAGE_TABLES and recipe.name.method == recipe.method
    assert find_recipe(recipe.name) == recipe


def test_every_method_is_there_from_random_weights_and_from_a_float_network():
    for name, table in LANGUAGE_TABLES.items():
        assert {recipe.method for recipe in table} == set(LANGUAGE_METHOD_NAMES)
        starts = [recipe.starts_from for recipe in table]
        assert starts.count(None) == starts.count(f"{name}-float") == len(LANGUAGE_METHOD_NAMES)


@pytest.mark.parametrize("end", ["", "@20", "-from-float", "-from-float@5", "@2"])
@pytest.mark.parametrize("size", ["small", "base"])
def test_strength_goes_from_1_to_150_however_long_the_run(size, end):
    recipe = find_recipe(f"lm-{size}-relax-ternary{end}")
    steps = recipe.steps_per_epoch
    schedule, last = recipe.schedule(steps), recipe.phase_two_epoch * steps - 1
    assert schedule(0) == 1 and schedule(last) == pytest.approx(150)
    assert schedule(last + 1) == math.inf
    assert recipe.epochs < 5 or recipe.phase_two_epoch / recipe.epochs == pytest.approx(0.8)


def test_a_short_conversion_starts_from_the_whole_float_network():
    assert find_recipe("lm-small-ste-binary-from-float@5").starts_from == "lm-small-float"


def test_methods_differ_in_their_schedules_and_quantizers():
    assert find_recipe("lm-small-ste-ternary").schedule(STEPS) == Hard()
    assert find_recipe("lm-small-linear-ternary").schedule(STEPS) == LinearMix(0, 80 * STEPS)
    assert find_recipe("lm-small-bitnet").quantizer == TernaryAbsMean()
    assert find_recipe("lm-small-relax-ternary").quantizer == Ternary()


def test_a_method_is_not_turned_into_another_by_a_setting():
    with pytest.raises(ValueError, match="strength_growth: it cannot be set"):
        find_recipe("lm-small-relax-ternary").with_settings({"strength_growth": "linear"})


def test_the_learning_rate_rises_and_falls_along_straight_lines():
    factors = [Triangle(rise=0.1).factor(epoch, 100) for epoch in (0, 5, 10, 55, 100)]
    assert factors == pytest.approx([0, 0.5, 1, 0.5, 0])


def test_what_is_set_of_the_tokens_is_set_of_the_float_network_too():
    changed = {"batch_size": "64", "steps_per_epoch": "40", "lr": "0.002"}
    recipe = find_recipe("lm-small-ste-ternary-from-float").with_settings(changed)
    assert recipe.starts_from == "lm-small-float+batch_size=64+steps_per_epoch=40"
    assert find_recipe(recipe.name) == recipe


@pytest.mark.parametrize("name", LANGUAGE_SEARCHES)
def test_every_run_of_a_search_has_its_float_network_in_it(name):
    runs = {recipe.name: recipe for recipe in LANGUAGE_SEARCHES[name]}
    assert len(runs) == len(LANGUAGE_SEARCHES[name])
    assert all(find_recipe(run) == recipe for run, recipe in runs.items())
    assert {recipe.starts_from for recipe in runs.values()} - {None} <= runs.keys()
