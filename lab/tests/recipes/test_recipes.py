import inspect
import io
import json
import math
import re
from dataclasses import replace

import pytest
from rich.console import Console

from binaryrelax import Binary, Hard, Ternary, TernaryThreshold
from binaryrelax_lab.commands.recipe_listing import recipes_table
from binaryrelax_lab.recipes import (
    ALL_RECIPES,
    LANGUAGE_RECIPES,
    NETWORK_NAMES,
    OUR_TABLES,
    TABLES,
    Cosine,
    Steps,
    cifar10_resnet20,
    demo_binary,
    demo_bwn,
    demo_float,
    demo_ternary,
    demo_twn,
    describe_recipes,
    find_recipe,
    imagenet_resnet18,
    plain,
)
from binaryrelax_lab.recipes.cifar import CIFAR10_ROWS, CIFAR100_ROWS
from binaryrelax_lab.recipes.notebook import demo_momentum, vgg11_momentum, vgg11_notebook_row

STEPS_PER_EPOCH = math.ceil(10_000 / 128)
CIFAR_STEPS, IMAGENET_STEPS = math.ceil(50_000 / 128), math.ceil(1_281_167 / 256)
LISTED = {
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
    "paper_accuracy_top5",
}
# Float, BWN, BinaryRelax binary, TWN, BinaryRelax ternary: a second copy of Tables 1 and 2.
PAPER = {
    "cifar10": """VGG-11 91.93 88.70 89.28 90.48 91.01
                  VGG-16 93.59 91.60 91.98 92.75 93.20
                  ResNet-20 92.68 87.44 87.82 88.65 90.07
                  ResNet-32 93.40 89.49 90.65 90.94 92.04
                  ResNet-18 95.49 92.72 94.19 93.55 94.98
                  ResNet-34 95.70 93.25 94.66 94.05 95.07""",
    "cifar100": """VGG-11 70.43 62.35 63.82 64.16 65.87
                   VGG-16 73.55 69.03 70.14 71.41 72.10
                   ResNet-56 70.86 66.73 67.65 68.26 69.83
                   ResNet-110 73.21 68.67 69.85 68.95 72.32
                   ResNet-18 76.32 72.31 74.04 73.15 75.24
                   ResNet-34 77.23 72.92 75.62 74.43 76.16""",
    "imagenet": "ResNet-18 69.60 60.80 63.20 61.80 66.50",
}


@pytest.mark.parametrize("recipe", ALL_RECIPES, ids=lambda recipe: recipe.name)
def test_recipe_is_found_by_name_and_is_plain_json(recipe):
    assert find_recipe(recipe.name) == recipe
    content = json.loads(json.dumps(plain(recipe), allow_nan=False))
    assert content.keys() >= LISTED
    if recipe.method == "float":
        assert recipe.quantizer is recipe.starts_from is None
    else:
        start = find_recipe(recipe.starts_from)
        assert (start.method, start.dataset, start.network) == (
            "float", recipe.dataset, recipe.network,
        )  # fmt: skip


def test_names_are_those_of_rows_and_methods():
    names = {recipe.name for recipe in ALL_RECIPES}
    assert len(names) == len(ALL_RECIPES) == 12 * 6 * 2 + 5 + 5 + 4
    assert "cifar10-resnet20-binary-plus" in names
    assert "cifar100-resnet110-ternary-exact-plus" in names
    assert find_recipe("cifar10-resnet20-binary-plus").starts_from == "cifar10-resnet20-float-plus"
    assert find_recipe("imagenet-resnet18-twn").network == "resnet18-imagenet"
    for recipe in ALL_RECIPES:
        if recipe.dataset.startswith("cifar"):
            assert recipe.name.startswith(f"{recipe.dataset}-{recipe.network}-{recipe.method}")


@pytest.mark.parametrize("table", TABLES)
def test_cells_hold_the_figures_of_the_paper(table):
    rows = [
        f"{NETWORK_NAMES[row[0].network]} {' '.join(f'{cell.paper_accuracy:.2f}' for cell in row)}"
        for row in TABLES[table].rows
    ]
    assert rows == [line.strip() for line in PAPER[table].splitlines()]
    assert TABLES[table].methods == ("float", "bwn", "binary", "twn", "ternary")
    assert {recipe.dataset for recipe in TABLES[table].recipes} == {table}


def test_imagenet_has_top5_and_others_do_not():
    top5 = [recipe.paper_accuracy_top5 for recipe in TABLES["imagenet"].recipes]
    assert top5 == [89.0, 83.0, 85.1, 84.2, 87.3]
    others = [recipe for recipe in ALL_RECIPES if recipe.dataset != "imagenet"]
    assert {recipe.paper_accuracy_top5 for recipe in others} == {None}


def test_our_own_variations_claim_nothing_of_the_paper():
    in_paper = {recipe.name for table in TABLES.values() for recipe in table.recipes}
    for recipe in ALL_RECIPES:
        assert (recipe.paper_accuracy is None) == (recipe.name not in in_paper)
    assert set(OUR_TABLES) == {
        "cifar10-exact", "cifar10-plus", "cifar10-tuned", "cifar100-exact", "cifar100-plus", "demo",
    }  # fmt: skip


@pytest.mark.parametrize(
    "row", [*CIFAR10_ROWS, *CIFAR100_ROWS, imagenet_resnet18], ids=lambda row: row.__name__
)
def test_docstring_of_a_row_claims_what_its_figures_say(row):
    claim = re.search(r"gains (\S+) points over BWN and (\d+\.\d+) over TWN", row.__doc__)
    binary, ternary = claim.groups()
    figure = {method: row(method).paper_accuracy for method in ("bwn", "binary", "twn", "ternary")}
    assert float(binary) == pytest.approx(figure["binary"] - figure["bwn"])
    assert float(ternary) == pytest.approx(figure["ternary"] - figure["twn"])
    assert row.__name__.replace("_", "-") == row().name.removesuffix("-float")


def test_cifar_recipes_have_the_settings_of_the_paper():
    for recipe in (*TABLES["cifar10"].recipes, *TABLES["cifar100"].recipes):
        assert (recipe.epochs, recipe.batch_size, recipe.lr) == (300, 128, 0.1)
        assert recipe.lr_schedule == Steps(milestones=(120, 220), factor_each=0.1)
        assert (recipe.momentum, recipe.weight_decay) == (0.95, 1e-4)
        assert (recipe.phase_two_epoch, recipe.keep_float) == (240, ("fc",))
        assert (recipe.crop_padding, recipe.flip) == (4, True)


def test_plus_differs_by_learning_rate_and_momentum_only():
    changed = {"lr_schedule": Cosine(), "momentum": 0.9, "paper_accuracy": None}
    for method in ("float", "bwn", "binary", "twn", "ternary", "ternary-exact"):
        paper, plus = cifar10_resnet20(method), cifar10_resnet20(f"{method}-plus")
        start = f"{paper.starts_from}-plus" if paper.starts_from else None
        assert replace(paper, name=plus.name, starts_from=start, **changed) == plus


def test_exact_ternary_differs_by_its_projection_only():
    threshold, exact = cifar10_resnet20("ternary"), cifar10_resnet20("ternary-exact")
    changed = {"method": "ternary-exact", "quantizer": Ternary(), "paper_accuracy": None}
    assert replace(threshold, name=exact.name, **changed) == exact


def test_strength_on_cifar_grows_after_each_epoch_until_phase_two():
    schedule = cifar10_resnet20("binary").schedule(CIFAR_STEPS)
    for epoch in range(240):
        first, last = epoch * CIFAR_STEPS, (epoch + 1) * CIFAR_STEPS - 1
        assert schedule(first) == schedule(last) == 1.02**epoch
    assert 100 < schedule(240 * CIFAR_STEPS - 1) < 200
    assert schedule(240 * CIFAR_STEPS) == math.inf


@pytest.mark.parametrize("steps", [IMAGENET_STEPS, 5004])
def test_strength_on_imagenet_grows_each_half_epoch(steps):
    schedule = imagenet_resnet18("ternary").schedule(steps)
    late = 55 if steps % 2 else 0  # steps, after 110 halves of an odd number rounded up
    for half in range(110):
        when = math.ceil(half * steps / 2) + late
        assert schedule(min(when, 55 * steps - 1)) == pytest.approx(1.045**half)
    assert schedule(math.ceil(steps / 2) - 1) == 1
    assert 100 < schedule(55 * steps - 1) < 200
    assert schedule(55 * steps) == math.inf


def test_imagenet_recipes_have_the_settings_of_the_paper():
    for recipe in TABLES["imagenet"].recipes:
        assert (recipe.epochs, recipe.phase_two_epoch, recipe.momentum) == (70, 55, 0.9)
        assert recipe.lr_schedule == Steps(milestones=(30, 40, 50))
        assert recipe.starts_from in (None, "imagenet-resnet18-float")


def test_unknown_variant_is_refused_with_the_choices():
    with pytest.raises(ValueError, match=r"variant='quaternary'.*ternary-exact-plus"):
        cifar10_resnet20("quaternary")
    with pytest.raises(ValueError, match=r"method='ternary-exact'.*bwn"):
        imagenet_resnet18("ternary-exact")


@pytest.mark.parametrize("make", [demo_binary, demo_ternary])
def test_strength_starts_at_one_and_passes_one_hundred_before_phase_two(make):
    recipe = make()
    schedule = recipe.schedule(STEPS_PER_EPOCH)
    harden_at = recipe.phase_two_epoch * STEPS_PER_EPOCH
    assert schedule(0) == 1
    assert schedule(harden_at - 1) == pytest.approx(150)
    assert schedule(harden_at) == math.inf
    assert recipe.phase_two_epoch / recipe.epochs == pytest.approx(0.8, abs=0.01)


@pytest.mark.parametrize("recipe", [demo_bwn(), demo_twn(), *TABLES["cifar10"].rows[0][1::2]])
def test_baselines_are_hard_from_the_start(recipe):
    assert recipe.method in ("bwn", "twn")
    assert recipe.schedule(STEPS_PER_EPOCH) == Hard()
    assert plain(recipe)["initial_strength"] == "inf"


def test_methods_share_their_projection_with_the_baseline():
    for find in (cifar10_resnet20, imagenet_resnet18, lambda m: find_recipe(f"demo-{m}")):
        assert find("bwn").quantizer == find("binary").quantizer == Binary()
        assert find("twn").quantizer == find("ternary").quantizer == TernaryThreshold(0.7)
        assert find("float").quantizer is None


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


def test_a_shorter_run_does_not_claim_the_figures_of_the_paper():
    short = imagenet_resnet18("binary").with_epochs(7)
    assert (short.paper_accuracy, short.paper_accuracy_top5) == (None, None)
    assert short.lr_schedule == Steps(milestones=(3, 4, 5))


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


def test_unknown_recipe_is_told_the_nearest_ones_in_one_line():
    with pytest.raises(ValueError, match="did you mean cifar10-resnet20-binary,") as error:
        find_recipe("cifar10-resnet20-bianry")
    assert len(str(error.value)) < 250
    with pytest.raises(ValueError, match="demo-ternary"):
        find_recipe("demo")
    with pytest.raises(ValueError, match=r"'\?'; `binaryrelax recipes` lists all"):
        find_recipe("?")


def test_learning_rate_schedules():
    assert Cosine().factor(0, 10) == 1
    assert Cosine().factor(5, 10) == pytest.approx(0.5)
    steps = Steps(milestones=(120, 220))
    assert [steps.factor(e, 300) for e in (0, 119.9, 120, 220)] == pytest.approx([1, 1, 0.1, 0.01])
    assert steps.stretched(0.1) == Steps(milestones=(12, 22))
    assert plain(steps) == {"kind": "steps", "milestones": [120, 220], "factor_each": 0.1}


def test_description_is_one_json_array():
    described = json.loads(json.dumps(describe_recipes(), allow_nan=False))
    recipes = (*ALL_RECIPES, *LANGUAGE_RECIPES)
    assert [entry["name"] for entry in described] == [recipe.name for recipe in recipes]
    cell = next(entry for entry in described if entry["name"] == "cifar100-vgg16-twn")
    assert (cell["initial_strength"], cell["growth"]) == ("inf", None)
    assert (cell["quantizer"], cell["paper_accuracy"]) == ("TernaryThreshold(ratio=0.7)", 71.41)


def test_table_of_the_terminal_fits_eighty_columns():
    text = io.StringIO()
    Console(file=text, width=80).print(recipes_table(ALL_RECIPES))
    lines = text.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in text.getvalue()
    headings = next(line.split() for line in lines if "recipe" in line)
    assert headings == ["recipe", "float", "bwn", "binary", "twn", "ternary", "exact", "also"]
    row = next(line.split() for line in lines if "cifar10-resnet20 " in line)
    assert row[1:] == ["92.68", "87.44", "87.82", "88.65", "90.07", "·", "-plus", "-tuned"]
    assert len(lines) < 45


def test_table_of_the_terminal_is_not_broken_by_a_narrow_one():
    wide, narrow = io.StringIO(), io.StringIO()
    Console(file=wide, width=200).print(recipes_table(ALL_RECIPES))
    Console(file=narrow, width=80).print(recipes_table(ALL_RECIPES))
    assert narrow.getvalue().split() == wide.getvalue().split()


def test_every_row_is_a_function_of_the_package():
    import binaryrelax_lab.recipes as recipes

    for row in (*CIFAR10_ROWS, *CIFAR100_ROWS):
        assert inspect.isfunction(getattr(recipes, row.__name__))


@pytest.mark.parametrize(
    ("row", "family"), [(vgg11_momentum(), "cifar10-vgg11"), (demo_momentum(), "demo-paper")]
)
def test_the_momentum_of_the_notebook_changes_nothing_else(row, family):
    start, *quantized = row
    assert start == find_recipe(f"{family}-float")
    assert [recipe.method for recipe in quantized] == ["bwn", "binary", "twn", "ternary"]
    for recipe in quantized:
        paper = find_recipe(f"{family}-{recipe.method}")
        changed = {"name": recipe.name, "momentum": 0.9, "paper_accuracy": recipe.paper_accuracy}
        assert replace(paper, **changed) == recipe
        assert recipe.name == f"{paper.name}+momentum=0.9"


def test_the_notebook_has_its_own_numbers_of_vgg11():
    start, *quantized = vgg11_notebook_row()
    for recipe in (start, *quantized):
        assert recipe == find_recipe(f"cifar10-vgg11-{recipe.method}-notebook")
        assert (recipe.epochs, recipe.phase_two_epoch, recipe.momentum) == (200, 150, 0.9)
        assert recipe.lr_schedule == Steps(milestones=(80, 140))
        assert recipe.paper_accuracy is None  # the paper's figures are of other numbers
    assert {recipe.starts_from for recipe in quantized} == {start.name}
    for recipe in quantized:
        strength = recipe.schedule(CIFAR_STEPS)
        last = strength(150 * CIFAR_STEPS - 1)
        if recipe.is_relaxed:
            assert strength(0) == 1.04
            assert last == pytest.approx(1.04**150)
        assert strength(150 * CIFAR_STEPS) == math.inf
