"""How the weights of the demo's ternary network slide into Q while λ grows.

One layer is looked at every few steps. Kept are the float weights y and the relaxed weights x of
some of its weights, and histograms of all. Everything is in units of the layer's scale, in which Q
stays at −1, 0 and 1. Whole numbers stand in a string, apart by spaces: a small file with short
differences.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from binaryrelax import Quantizer
from binaryrelax_lab.data import ImageSource, load_fashion_mnist
from binaryrelax_lab.engine.trainer import Trainer
from binaryrelax_lab.recipes import Recipe, find_recipe, plain
from binaryrelax_lab.studies import Say, silence
from binaryrelax_lab.studies.finding import Record
from binaryrelax_lab.studies.quantized_training import (
    float_network_of_the_demo,
    record_of_epoch,
    relaxation_of,
    started,
)

RECIPE, LAYER = "demo-ternary", "block3.conv.weight"
STEPS_BETWEEN_LOOKS = 20
NUM_FOLLOWED = 120  # weights that are looked at one by one
UNITS = 100  # of a scale
EDGE, NUM_BINS = 2.55, 51  # the codes are centres of bins


def sliding_weights_of_the_demo(say: Say) -> list[Record]:
    """The layer from the trained float network on, epoch by epoch of the demo."""
    data = load_fashion_mnist()
    initial = float_network_of_the_demo(data)
    return [sliding_weights(find_recipe(RECIPE), data, initial, say=say)]


def sliding_weights(
    recipe: Recipe,
    data: ImageSource,
    initial: dict[str, Tensor],
    *,
    layer: str = LAYER,
    say: Say = silence,
) -> Record:
    """Moments of a layer, the first of them before the first step, where x = y and λ = 0."""
    trainer = started(recipe, data, initial=initial)
    [weight] = [w for w, name in trainer.weights.names.items() if name == layer]
    quantizer = trainer.weights[weight]
    every = max(1, weight.numel() // NUM_FOLLOWED)
    num_steps = recipe.epochs * trainer.steps_per_epoch
    moments = [_moment(initial[layer], initial[layer], quantizer, every) | _when(trainer, 0.0)]
    accuracies = []
    for epoch in range(recipe.epochs):
        for _ in trainer.steps():
            if trainer.num_steps % STEPS_BETWEEN_LOOKS == 0 or trainer.num_steps == num_steps:
                y = relaxation_of(trainer).float_weights[weight]
                seen = _moment(y, weight.detach(), quantizer, every)
                moments.append(seen | _when(trainer, relaxation_of(trainer).strength))
        accuracies.append(record_of_epoch(trainer).accuracy)
        say(f"{recipe.name}: epoch {epoch + 1} of {recipe.epochs}, {accuracies[-1]:.2f} %")
    return {
        "recipe": recipe.name,
        "seed": trainer.seed,
        "layer": layer,
        "num_weights": weight.numel(),
        "steps_per_epoch": trainer.steps_per_epoch,
        "units_per_scale": UNITS,
        "codebook": list(quantizer.codebook),
        "bin_edge": EDGE,
        "moments": moments,
        "accuracies": accuracies,
    }


def _when(trainer: Trainer, strength: float) -> Record:
    phase = 2 if math.isinf(strength) else 1
    return {"step": trainer.num_steps, "phase": phase, "strength": plain(strength)}


def _moment(y: Tensor, x: Tensor, quantizer: Quantizer, every: int) -> Record:
    """Where the weights are, in units of the scale that y projects with."""
    scale, codes = quantizer.split(y)
    relative = {"y": y / scale, "x": x / scale}
    distance = torch.linalg.vector_norm(x - scale * codes) / torch.linalg.vector_norm(x)
    return {
        "relative_distance": round(distance.item(), 6),
        **{name: _sampled(values, every) for name, values in relative.items()},
        "codes": _text(codes.flatten()[::every]),
        **{f"counts_of_{name}": _counts(values) for name, values in relative.items()},
    }


def _sampled(values: Tensor, every: int) -> str:
    return _text((UNITS * values.flatten()[::every]).round())


def _counts(values: Tensor) -> str:
    return _text(torch.histc(values, bins=NUM_BINS, min=-EDGE, max=EDGE))


def _text(numbers: Tensor) -> str:
    return " ".join(str(number) for number in numbers.int().tolist())
