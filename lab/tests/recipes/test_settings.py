"""`--set key=value`: what can be changed, and how wrong values are refused."""

import math
from dataclasses import MISSING, fields

import pytest

from binaryrelax import Levels, PerChannel, PerGroup, Ternary, TernaryThreshold, Uniform
from binaryrelax.quantizers import public_granularities, public_quantizers
from binaryrelax_lab.recipes import (
    ALL_RECIPES,
    Cosine,
    Steps,
    cifar10_resnet20,
    cifar10_vgg11,
    lm_small,
    plain,
)

BINARY = cifar10_resnet20("binary")


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("lr", "0.05", 0.05),
        ("lr", "5e-2", 0.05),
        ("growth", " 1.01 ", 1.01),
        ("batch_size", "64", 64),
        ("initial_strength", "inf", math.inf),
        ("flip", "false", False),
        ("keep_float", "fc,conv1", ("fc", "conv1")),
        ("keep_float", "", ()),
        ("lr_schedule", "cosine", Cosine()),
        ("lr_schedule", "steps:100,200", Steps(milestones=(100, 200))),
        ("quantizer", "Ternary(granularity=PerChannel())", Ternary(granularity=PerChannel())),
        ("starts_from", "none", None),
        ("starts_from", "cifar10-resnet20-float-plus", "cifar10-resnet20-float-plus"),
        ("quantizer", "TernaryThreshold(0.6)", TernaryThreshold(0.6)),
        ("quantizer", "Levels((0, 1, 3))", Levels((0, 1, 3))),
        ("quantizer", "Uniform(3, granularity=PerGroup(8))", Uniform(3, granularity=PerGroup(8))),
    ],
)
def test_value_is_parsed_by_the_type_of_its_field(key, text, value):
    changed = BINARY.with_settings({key: text})
    assert getattr(changed, key) == value
    assert changed.name == f"cifar10-resnet20-binary+{key}={''.join(text.split())}"


def test_a_changed_recipe_keeps_its_beginning_and_drops_the_claim():
    changed = BINARY.with_settings({"lr": "0.05", "growth": "1.01"})
    assert changed.name == "cifar10-resnet20-binary+lr=0.05+growth=1.01"
    assert changed.starts_from == "cifar10-resnet20-float"
    assert changed.paper_accuracy is None
    assert changed.method == "binary"


def test_no_settings_change_nothing():
    assert BINARY.with_settings({}) is BINARY


@pytest.mark.parametrize("recipe", ALL_RECIPES[:5], ids=lambda recipe: recipe.method)
def test_quantizers_survive_the_way_through_their_text(recipe):
    if recipe.quantizer is not None:
        again = recipe.with_settings({"quantizer": plain(recipe)["quantizer"]})
        assert again.quantizer == recipe.quantizer


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("lr", "fast", "lr=fast: lr must be a number, above 0"),
        ("lr", "nan", "lr must be above 0"),
        ("lr", "inf", "lr must be above 0"),
        ("lr", "-1", "lr must be above 0"),
        ("batch_size", "1.5", "batch_size must be a whole number, at least 1"),
        ("batch_size", "0", "batch_size must be at least 1"),
        ("momentum", "1", "momentum must be from 0 to below 1"),
        ("growth", "0.9", "growth must be at least 1"),
        ("initial_strength", "-1", "initial_strength must be at least 0, or inf"),
        ("flip", "perhaps", "flip must be true or false"),
        ("keep_float", "fc,../x", "keep_float must be a name"),
        ("lr_schedule", "linear", "lr_schedule must be cosine, or steps:"),
        ("lr_schedule", "steps:220,120", "increasing"),
        ("epochs", "30", "phase_two_epoch=240; Phase II must begin within the epochs"),
        ("learning_rate", "1", "learning_rate: it cannot be set; .*lr_schedule"),
        ("epoch", "1", "did you mean epochs?"),
        ("name", "x", "name: it cannot be set"),
        ("dataset", "cifar100", "dataset: it cannot be set"),
        ("method", "bwn", "method: it cannot be set"),
        ("paper_accuracy", "99", "paper_accuracy: it cannot be set"),
    ],
)
def test_wrong_setting_is_refused_with_its_rule(key, text, message):
    with pytest.raises(ValueError, match=message) as error:
        BINARY.with_settings({key: text})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "(lambda: Ternary())()",
        "Ternary().project",
        "open('/etc/passwd')",
        "Ternary(**{})",
        "Ternary(*[])",
        "Ternary(granularity=PerGroup(size=10**9))",
        "[Ternary() for _ in range(3)]",
        "Ternary",
        "PerChannel()",
        "Uniform(bits=1)",
        "Uniform(sides=3)",
        "Binary(granularity=PerLayer)",
        "Ternary(",
        "None",
        "",
        "Ternary(" * 60,
        "(" * 200,
        "1" * 5000,
    ],
)
def test_only_our_quantizers_with_literal_arguments_are_built(text):
    with pytest.raises(ValueError, match="quantizer must"):
        BINARY.with_settings({"quantizer": text})


def written(kind: type, **settings: str) -> str:
    """How an object of the kind is written, with a value for what it must be given."""
    values = {"bits": "3", "magnitudes": "(0, 1, 3)", "size": "9"}
    needed = {field.name: values[field.name] for field in fields(kind) if field.default is MISSING}
    given = {**needed, **settings}
    return f"{kind.__name__}({', '.join(f'{name}={value}' for name, value in given.items())})"


@pytest.mark.parametrize("granularity", public_granularities().values(), ids=written)
@pytest.mark.parametrize("quantizer", public_quantizers().values(), ids=written)
def test_every_public_quantizer_and_granularity_can_be_set(quantizer, granularity):
    """A new one needs no entry anywhere: its public name is enough."""
    text = written(quantizer, granularity=written(granularity))
    made = BINARY.with_settings({"quantizer": text}).quantizer
    assert type(made) is quantizer and type(made.granularity) is granularity


def test_the_rule_names_every_public_kind():
    with pytest.raises(ValueError) as error:
        BINARY.with_settings({"quantizer": "Unary()"})
    for name in (*public_quantizers(), *public_granularities()):
        assert name in str(error.value)


def test_settings_that_a_run_would_never_look_at_are_refused():
    with pytest.raises(ValueError, match="cifar10-vgg11-float is a float network"):
        cifar10_vgg11("float").with_settings({"growth": "1.1"})
    with pytest.raises(ValueError, match="λ = ∞ from the first step"):
        cifar10_vgg11("bwn").with_settings({"growth": "1.1"})
    relaxed = {"initial_strength": "1", "growth": "1.1", "growth_every_epochs": "0.5"}
    assert cifar10_vgg11("bwn").with_settings(relaxed).is_relaxed


def test_every_number_of_a_language_recipe_can_be_set_and_wrong_ones_are_refused():
    recipe = lm_small("relax-ternary")
    numbers = [f.name for f in fields(recipe) if isinstance(getattr(recipe, f.name), int | float)]
    for key in numbers:
        assert getattr(recipe.with_settings({key: str(getattr(recipe, key))}), key) is not None
        for text in ("no", "-1"):
            with pytest.raises(ValueError, match=f"{key}={text}: {key} must be"):
                recipe.with_settings({key: text})


@pytest.mark.parametrize(
    ("method", "key", "text"),
    [
        ("parq-ternary", "initial_strength", "2"),
        ("linear-binary", "growth", "1.5"),
    ],
)
def test_settings_of_another_way_to_grow_are_refused(method, key, text):
    with pytest.raises(ValueError, match=f"{key}: .*; take a relax recipe"):
        lm_small(method).with_settings({key: text})
