"""Choosing settings without the test images: some training images are held out."""

import json
from dataclasses import replace

import pytest
import torch
from lab.tests.support.tiny import tiny_data, tiny_recipe

from binaryrelax.packed.manifest import digest_of_tensors
from binaryrelax_lab.campaign import recipes_of_tables
from binaryrelax_lab.data import load_fashion_mnist
from binaryrelax_lab.engine import Job, train
from binaryrelax_lab.recipes import ALL_RECIPES, demo_binary, find_recipe, plain


def test_held_out_images_are_training_images_that_are_not_trained_on():
    data = load_fashion_mnist()
    split = data.holding_out(1000)
    assert (split.num_train, split.num_test) == (data.num_train - 1000, 1000)
    whole = {image.numpy().tobytes() for image in data.train_images}
    kept = {image.numpy().tobytes() for image in split.train_images}
    held = {image.numpy().tobytes() for image in split.test_images}
    assert kept | held == whole and not kept & held
    assert torch.equal(data.holding_out(1000).test_images, split.test_images)  # every time


@pytest.mark.parametrize("count", [0, 10_000, 20_000])
def test_holding_out_nothing_or_everything_is_refused(count):
    with pytest.raises(ValueError, match=r"held_out=.* must be above 0 and below 10000"):
        load_fashion_mnist().holding_out(count)


def test_run_records_its_split_and_never_sees_the_test_images(tmp_path):
    data = tiny_data()
    blind = replace(data, test_images=torch.zeros_like(data.test_images))
    recipe = replace(tiny_recipe("float"), held_out=8)
    results = [
        train(Job(recipe, 0, tmp_path / name), images)
        for name, images in {"seeing": data, "blind": blind}.items()
    ]
    held = data.holding_out(8)
    assert results[0].split == {
        "trained_on": 24,
        "held_out": 8,
        "held_out_digest": digest_of_tensors(held.test_images, held.test_labels),
    }
    assert results[0].epochs == results[1].epochs
    assert results[0].recipe.settings["held_out"] == 8
    whole = train(Job(tiny_recipe("float"), 0, tmp_path / "whole"), data)
    assert "split" not in whole.to_json()


def test_ancestor_has_not_seen_the_held_out_images_either():
    recipe = demo_binary().with_settings({"held_out": "500"}).with_epochs(3)
    assert recipe.name == "demo-binary+held_out=500@3"
    ancestor = find_recipe(recipe.starts_from)
    assert ancestor.name == "demo-float+held_out=500@3" and ancestor.held_out == 500


@pytest.mark.parametrize("recipe", recipes_of_tables("cifar10-search"), ids=lambda r: r.name)
def test_recipes_of_the_search_are_found_by_name_and_hold_images_out(recipe):
    assert find_recipe(recipe.name) == recipe
    assert recipe.held_out == 5000 and recipe.paper_accuracy is None
    assert recipe.starts_from is None or find_recipe(recipe.starts_from).held_out == 5000


def test_recipes_without_held_out_images_look_as_they_did():
    """Results and checkpoints from before there was the setting are still theirs."""
    assert all("held_out" not in plain(recipe) for recipe in ALL_RECIPES)
    assert "held_out" in json.dumps(plain(demo_binary().with_settings({"held_out": "5"})))
