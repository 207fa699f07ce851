"""A name is a recipe: whatever changes it tells of, it can be read again."""

from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from binaryrelax_lab.engine import read_json
from binaryrelax_lab.recipes import ALL_RECIPES, demo_binary, demo_float, find_recipe, plain

RESULTS = Path(__file__).parents[3] / "results"
STARTS = ("demo-float", "demo-bwn", "demo-binary", "demo-ternary", "cifar10-resnet20-binary")
SETTINGS = (
    ("lr", "1e+0"),
    ("growth", "1.1"),
    ("growth_every_epochs", "0.5"),
    ("initial_strength", "1"),
    ("initial_strength", "inf"),
    ("epochs", "20"),
    ("phase_two_epoch", "4"),
    ("held_out", "0"),
    ("held_out", "500"),
    ("starts_from", "none"),
    ("starts_from", "demo-float"),
    ("starts_from", "cifar10-vgg11-float"),
    ("quantizer", "Levels((0, 1, 3), granularity=PerChannel())"),
    ("lr_schedule", "steps:2,5"),
    ("keep_float", ""),
)
CHANGES = st.one_of(
    st.integers(1, 400), st.lists(st.sampled_from(SETTINGS), min_size=1, max_size=4).map(dict)
)


@given(st.sampled_from(STARTS), st.lists(CHANGES, max_size=6))
@settings(max_examples=300, deadline=None)
def test_every_name_is_read_as_the_recipe_that_bears_it(start, changes):
    recipe = find_recipe(start)
    for change in changes:
        try:
            if isinstance(change, int):
                recipe = recipe.with_epochs(change)
            else:
                recipe = recipe.with_settings(change)
        except ValueError:
            continue  # refused changes change nothing
        assert find_recipe(recipe.name) == recipe
        if recipe.starts_from is not None:
            ancestor = find_recipe(recipe.starts_from)
            assert ancestor.held_out >= recipe.held_out


def committed_recipes():
    """The recipe of every result, once."""
    contents = (read_json(path) for path in sorted(RESULTS.rglob("seed*.json")))
    return {content["recipe"]["name"]: content["recipe"] for content in contents}.values()


@pytest.mark.parametrize("recipe", committed_recipes(), ids=lambda recipe: recipe["name"])
def test_committed_results_still_bear_the_name_of_their_recipe(recipe):
    assert plain(find_recipe(recipe["name"])) == recipe


def test_there_are_committed_results():
    assert len(committed_recipes()) > 20


def test_a_shortened_recipe_can_be_shortened_again_with_its_ancestor():
    short = find_recipe("demo-binary@12").with_epochs(6)
    assert (short.name, short.epochs) == ("demo-binary@12@6", 6)
    ancestor = find_recipe(short.starts_from)
    assert ancestor == demo_float().with_epochs(12).with_epochs(6)


def test_a_shortened_recipe_can_hold_images_out():
    blind = find_recipe("demo-binary@12").with_settings({"held_out": "1000"})
    assert blind.name == "demo-binary@12+held_out=1000"
    assert find_recipe(blind.starts_from).held_out == 1000


@pytest.mark.parametrize("order", [("starts_from", "held_out"), ("held_out", "starts_from")])
def test_a_start_that_was_chosen_has_not_seen_the_held_out_images_either(order):
    given = {"starts_from": "demo-bwn", "held_out": "500"}
    recipe = demo_binary().with_settings({key: given[key] for key in order})
    one_by_one = demo_binary()
    for key in order:
        one_by_one = one_by_one.with_settings({key: given[key]})
    assert recipe == one_by_one
    assert recipe.starts_from == "demo-bwn+held_out=500"


@pytest.mark.parametrize(
    "name", ["demo-binary@", "demo-binary@x", "demo-binary@3@", "demo-binry@3", "demo-binary+@3"]
)
def test_unreadable_name_is_named_as_a_whole(name):
    with pytest.raises(ValueError, match="did you mean demo-binary") as error:
        find_recipe(name)
    assert f"no recipe is called {name!r};" in str(error.value)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("starts_from", "demo-float@3"),
        ("starts_from", "demo-float+lr=1"),
        ("keep_float", "fc@2"),
        ("quantizer", "Binary() #@3"),
        ("quantizer", "Binary()#+lr=1"),
    ],
)
def test_value_that_would_make_a_name_ambiguous_is_refused(key, text):
    with pytest.raises(ValueError, match=f"{key} must be"):
        demo_binary().with_settings({key: text})


def test_name_tells_of_no_setting_twice():
    with pytest.raises(ValueError, match=r"demo-binary\+lr=0.05 sets it already"):
        find_recipe("demo-binary+lr=0.05").with_settings({"lr": "0.2"})
    with pytest.raises(ValueError, match="sets it already"):
        find_recipe("demo-binary+lr=0.05+lr=0.2")


def test_growth_that_an_infinite_strength_makes_useless_is_refused_in_two_steps_too():
    growing = demo_binary().with_settings({"growth": "1.1"})
    with pytest.raises(ValueError, match="growth has no effect"):
        growing.with_settings({"initial_strength": "inf"})


def test_names_of_recipes_hold_no_mark_of_a_change():
    assert not [recipe.name for recipe in ALL_RECIPES if {"@", "+"} & set(recipe.name)]
