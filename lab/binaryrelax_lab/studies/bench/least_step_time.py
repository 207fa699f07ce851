"""The least time that the parts of a training step can take, from what they must move and compute.

Counts come from the network alone, without a device. Every kernel is taken to read its numbers from
the device's memory and to write them there; where they stay in the cache, it can be faster.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from binaryrelax import Binary, select_weights
from binaryrelax_lab.models import build_network
from binaryrelax_lab.recipes import Recipe
from binaryrelax_lab.studies.bench.timing import graph_time

FLOAT32, BF16 = 4, 2  # bytes of a number
IMAGE_SHAPE, NUM_CLASSES = (3, 32, 32), 10
# Forward: once for the statistics, once more to normalise, and the result is written. Backward:
# the gradient and the features for the two sums over each channel, both again for the gradient of
# the features, which is written. ReLUs, additions and poolings are taken to ride along for nothing.
NORMALISATION_PASSES = 3 + 5
OPTIMIZER_PASSES = 5  # reads gradient, momentum and y; writes momentum and y
RELAXATION_PASSES = 2  # reads y again and writes x; the scale is found while y moves
COPIED_BYTES = 1 << 30
MATRIX_SIZE = 8192


class Kind(StrEnum):
    """The parts of a training step."""

    PRODUCTS = "convolutions and matrix products"
    COMPILED = "compiled elementwise and normalisation"
    UPDATE = "optimizer and relaxation"
    COPIES = "memory copies and sets"
    OTHER = "other"


@dataclass
class Counts:
    """What one step of training has to do.

    Args:
        operations: additions and multiplications of all products, forward and backward.
        product_elements: numbers that the products read and write, each product for itself.
        product_weights: weights of layers that multiply; they are float32 outside of the products.
        normalised: numbers that batch normalization is given.
        parameters: numbers that the optimizer moves.
        quantized: weights that are relaxed.
    """

    operations: int = 0
    product_elements: int = 0
    product_weights: int = 0
    normalised: int = 0
    parameters: int = 0
    quantized: int = 0


@dataclass(frozen=True)
class Rates:
    """How fast the device is at the two things that a step consists of."""

    bytes_per_second: float
    operations_per_second: float


@dataclass(frozen=True)
class Work:
    """Bytes to move and operations to compute, which a device can do at the same time."""

    bytes: int
    operations: int = 0

    def microseconds(self, rates: Rates) -> float:
        """The time of whichever takes longer."""
        moving = self.bytes / rates.bytes_per_second
        return 1e6 * max(moving, self.operations / rates.operations_per_second)


def count_step(recipe: Recipe) -> Counts:
    """The counts of one batch of a recipe's network."""
    with torch.device("meta"):
        network = build_network(recipe.network, IMAGE_SHAPE[0], NUM_CLASSES)
        images = torch.empty(recipe.batch_size, *IMAGE_SHAPE)
    counts = count_pass(network, images)
    counts.quantized = sum(w.numel() for w in select_weights(network, Binary(), recipe.keep_float))
    return counts


def count_pass(network: nn.Module, images: Tensor) -> Counts:
    """The counts of a forward and backward pass, and of the parameters; none is quantized."""
    counts = Counts(parameters=sum(p.numel() for p in network.parameters()))
    layers = [m for m in network.modules() if isinstance(m, nn.Conv2d | nn.Linear | nn.BatchNorm2d)]
    hooks = [layer.register_forward_hook(partial(_count_layer, counts)) for layer in layers]
    with FlopCounterMode(display=False) as counter:
        network(images).sum().backward()
    for hook in hooks:
        hook.remove()
    counts.operations = counter.get_total_flops()
    return counts


def _count_layer(
    counts: Counts,
    layer: nn.Conv2d | nn.Linear | nn.BatchNorm2d,
    inputs: tuple[Tensor, ...],
    output: Tensor,
) -> None:
    (features,) = inputs
    if isinstance(layer, nn.BatchNorm2d):
        counts.normalised += features.numel()
        return
    # The result, the weight's gradient and, but for the images, the features' gradient: each is
    # made of two tensors of these sizes and has the size of the third.
    num_products = 3 if features.requires_grad else 2
    sizes = (features.numel(), output.numel(), layer.weight.numel())
    counts.product_elements += num_products * sum(sizes)
    counts.product_weights += layer.weight.numel()


def least_work(counts: Counts) -> dict[Kind, Work]:
    """What each kind of kernel must at least do; copies and the rest need not be there at all."""
    # Weights are read as float32 and written for the products; their gradients go the other way.
    casts = 2 * (FLOAT32 + BF16) * counts.product_weights
    return {
        Kind.PRODUCTS: Work(BF16 * counts.product_elements, counts.operations),
        Kind.COMPILED: Work(BF16 * NORMALISATION_PASSES * counts.normalised + casts),
        Kind.UPDATE: Work(
            FLOAT32 * (OPTIMIZER_PASSES * counts.parameters + RELAXATION_PASSES * counts.quantized)
        ),
    }


def measure_rates() -> Rates:
    """What the CUDA device does in a long copy, and in a large bf16 product."""
    source = torch.zeros(COPIED_BYTES, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    copying = graph_time(lambda: target.copy_(source))
    left, right = torch.randn(2, MATRIX_SIZE, MATRIX_SIZE, device="cuda").bfloat16()
    product = torch.empty_like(left)
    multiplying = graph_time(lambda: torch.mm(left, right, out=product))
    return Rates(
        bytes_per_second=2 * COPIED_BYTES / (copying / 1000),
        operations_per_second=2 * MATRIX_SIZE**3 / (multiplying / 1000),
    )
