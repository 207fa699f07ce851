import json
import math
from dataclasses import replace

import pytest

from binaryrelax import Binary, Hard, TernaryThreshold
from binaryrelax.lab.recipes import (
    ALL_RECIPES,
    Cosine,
    Steps,
    demo_binary,
    demo_bwn,
    demo_float,
    demo_ternary,
    demo_twn,
    find_recipe,
    plain,
)

STEPS_PER_EPOCH = math.ceil(10_000 / 128)
LISTED = [
    "name",
    "dataset",
    "network",
    "method",
    "quantizer",
    "epochs",
    "batch_size",
    "lr",
    "lr_schedule",
    "momentum",
    "weight_decay",
    "initial_strength",
    "growth",
    "growth_every_epochs",
    "phase_two_epoch",
    "paper_accuracy",
]


@pytest.mark.parametrize("make", ALL_RECIPES, ids=lambda make: make.__name__)
def test_recipe_is_found_by_name_and_is_plain_json(make):
    recipe = make()
    assert recipe.name == make.__name__.replace("_", "-")
    assert find_recipe(recipe.name) == recipe
    content = json.loads(json.dumps(plain(recipe), allow_nan=False))
    assert set(LISTED) <= content.keys()


@pytest.mark.parametrize("make", [demo_binary, demo_ternary])
def test_strength_starts_at_one_and_passes_one_hundred_before_phase_two(make):
    recipe = make()
    schedule = recipe.schedule(STEPS_PER_EPOCH)
    harden_at = recipe.phase_two_epoch * STEPS_PER_EPOCH
    assert schedule(0) == 1
    assert schedule(harden_at - 1) == pytest.approx(150)
    assert schedule(harden_at) == math.inf
    assert recipe.phase_two_epoch / recipe.epochs == pytest.approx(0.8, abs=0.01)


@pytest.mark.parametrize("make", [demo_bwn, demo_twn])
def test_baselines_are_hard_from_the_start(make):
    assert make().schedule(STEPS_PER_EPOCH) == Hard()
    assert plain(make())["initial_strength"] == "inf"


def test_methods_share_their_projection_with_the_baseline():
    assert demo_bwn().quantizer == demo_binary().quantizer == Binary()
    assert demo_twn().quantizer == demo_ternary().quantizer == TernaryThreshold(0.7)
    assert demo_float().quantizer is None


@pytest.mark.parametrize("epochs", [2, 3, 5, 12, 40])
def test_other_numbers_of_epochs_end_phase_one_with_the_same_strength(epochs):
    recipe = demo_binary().with_epochs(epochs)
    schedule = recipe.schedule(STEPS_PER_EPOCH)
    harden_at = recipe.phase_two_epoch * STEPS_PER_EPOCH
    assert recipe.name == f"demo-binary@{epochs}"
    assert recipe.starts_from == f"demo-float@{epochs}"
    assert 0 < recipe.phase_two_epoch < epochs
    assert schedule(harden_at - 1) == pytest.approx(150, rel=0.05)
    assert schedule(harden_at) == math.inf


def test_a_single_epoch_is_all_phase_two():
    assert demo_binary().with_epochs(1).schedule(STEPS_PER_EPOCH)(0) == math.inf


def test_the_usual_number_of_epochs_keeps_the_name():
    assert demo_binary().with_epochs(demo_binary().epochs) == demo_binary()


def test_no_epochs_are_refused():
    with pytest.raises(ValueError, match="epochs=0"):
        demo_float().with_epochs(0)


def test_phase_two_after_the_end_is_refused():
    with pytest.raises(ValueError, match="demo-float: epochs=10, phase_two_epoch=11"):
        replace(demo_float(), phase_two_epoch=11)


def test_finite_strength_without_growth_is_refused():
    with pytest.raises(ValueError, match="growth and growth_every_epochs must be given"):
        replace(demo_binary(), growth=None)


def test_unknown_recipe_lists_those_there_are():
    with pytest.raises(ValueError, match="demo-ternary"):
        find_recipe("demo")


def test_learning_rate_schedules():
    assert Cosine().factor(0, 10) == 1
    assert Cosine().factor(5, 10) == pytest.approx(0.5)
    steps = Steps(milestones=(120, 220))
    assert [steps.factor(e, 300) for e in (0, 119.9, 120, 220)] == pytest.approx([1, 1, 0.1, 0.01])
    assert steps.stretched(0.1) == Steps(milestones=(12, 22))
    assert plain(steps) == {"kind": "steps", "milestones": [120, 220], "factor_each": 0.1}
