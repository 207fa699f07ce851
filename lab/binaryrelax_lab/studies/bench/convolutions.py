"""What the kernels for convolutions of few channels save: beside cuDNN, alone and in ResNet-20."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from binaryrelax_lab.engine import Machine
from binaryrelax_lab.engine.environment import describe_environment
from binaryrelax_lab.engine.narrow_convolutions import (
    FewChannels,
    convolve,
    taps_of,
    weight_gradient_parts,
)
from binaryrelax_lab.studies import Say
from binaryrelax_lab.studies.bench.timing import gpu_machine, graph_time, in_turns, medians
from binaryrelax_lab.studies.bench.training_steps import (
    WARM_UP,
    TrainingSteps,
    random_images,
    recipe_of,
    time_side_by_side,
)

BATCH = 128
# Channels and width of ResNet-20's images, and of ResNet-18's first ones.
LAYERS = ((16, 32), (32, 16), (64, 8), (64, 32))
NETWORK, VARIANT, SIDE_BY_SIDE = "resnet20", "binary", 4
ROUNDS, STEPS_A_ROUND = 15, 40


def bench_convolutions(say: Say) -> dict[str, Any]:
    """All measurements; needs a CUDA device."""
    machine = gpu_machine("convolutions")
    with machine.settings():
        return {
            "environment": describe_environment(machine),
            "batch_size": BATCH,
            "layers": [_measure_layer(*layer, say) for layer in LAYERS],
            "rounds": ROUNDS,
            "steps_a_round": STEPS_A_ROUND,
            "networks": _measure_networks(machine, say),
        }


def _measure_layer(channels: int, width: int, say: Say) -> dict[str, Any]:
    """Microseconds of the three products of a layer, by cuDNN and by our kernels."""
    images, change = (_images(channels, width) for _ in range(2))
    weight = torch.randn(channels, channels, 3, 3, device="cuda")
    taps = taps_of(weight).to(torch.bfloat16).contiguous()
    weight = weight.to(torch.bfloat16, memory_format=torch.channels_last)
    calls: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "result": (
            lambda: nn.functional.conv2d(images, weight, padding=1),
            lambda: convolve(images, taps),
        ),
        "gradient of the input": (
            lambda: _backward(change, images, weight, of_weight=False),
            lambda: convolve(change, taps),
        ),
        "gradient of the weight": (
            lambda: _backward(change, images, weight, of_weight=True),
            lambda: weight_gradient_parts(images, change).sum(0),
        ),
    }
    products = []
    for what, (theirs, ours) in calls.items():
        times = {"cudnn": 1000 * graph_time(theirs), "ours": 1000 * graph_time(ours)}
        say(f"{channels} channels, {what}: {times['cudnn']:.1f} µs, ours {times['ours']:.1f} µs")
        products.append({"product": what, "microseconds": times})
    return {"channels": channels, "width": width, "products": products}


def _images(channels: int, width: int) -> Tensor:
    values = torch.randn(BATCH, channels, width, width, device="cuda", dtype=torch.bfloat16)
    return values.contiguous(memory_format=torch.channels_last)


def _backward(change: Tensor, images: Tensor, weight: Tensor, *, of_weight: bool) -> Any:
    place = {"stride": [1, 1], "padding": [1, 1], "dilation": [1, 1], "transposed": False}
    return torch.ops.aten.convolution_backward(
        change, images, weight, None, **place, output_padding=[0, 0], groups=1,
        output_mask=[not of_weight, of_weight, False],
    )  # fmt: skip


def _measure_networks(machine: Machine, say: Say) -> list[dict[str, Any]]:
    """Milliseconds per training step and network, alone and several side by side, in turns."""
    data = random_images().to(machine.device)
    takers: dict[str, list[TrainingSteps]] = {}
    for name, prepare in (("cudnn", give_back), ("ours", lambda model: None)):
        takers[name] = [
            TrainingSteps(recipe_of(NETWORK, VARIANT), data, machine, say, prepare)
            for _ in range(SIDE_BY_SIDE)
        ]
        for taker in takers[name]:
            taker.take(WARM_UP)
    records = []
    for count in (1, SIDE_BY_SIDE):
        measures = {
            name: partial(time_side_by_side, group[:count], STEPS_A_ROUND)
            for name, group in takers.items()
        }
        found = medians(in_turns(measures, ROUNDS))
        say(f"{NETWORK} x{count}: {found['cudnn']:.3f} ms, ours {found['ours']:.3f} ms")
        records.append({"network": NETWORK, "networks": count, "milliseconds": found})
    return records


def give_back(model: nn.Module) -> None:
    """Makes the layers that took our kernels ordinary ones again."""
    quickened: list[nn.Module] = [m for m in model.modules() if isinstance(m, FewChannels)]
    for layer in quickened:
        layer.__class__ = nn.Conv2d
