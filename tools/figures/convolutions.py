"""Our convolutions of few channels beside cuDNN's, alone and in training."""

from __future__ import annotations

from typing import Any

from binaryrelax.lab.recipes import NETWORK_NAMES
from figures.common import BENCHMARKS, read, table


def layers() -> str:
    """Microseconds of each product of a layer."""
    content = _content()
    products = [product["product"] for product in content["layers"][0]["products"]]
    rows = []
    for layer in content["layers"]:
        shape = f"{layer['channels']} channels, {layer['width']} × {layer['width']}"
        rows.append((shape, *(_microseconds(p["microseconds"]) for p in layer["products"])))
    return table((f"batch {content['batch_size']}: cuDNN → ours", *products), rows)


def networks() -> str:
    """Milliseconds of a training step."""
    content = _content()
    rows = []
    for record in content["networks"]:
        times, count = record["milliseconds"], record["networks"]
        words = "alone" if count == 1 else f"{count} side by side, a step of each"
        ratio = times["cudnn"] / times["ours"]
        shown = f"{times['cudnn']:.2f} ms", f"{times['ours']:.2f} ms", f"{ratio:.2f}×"
        rows.append((f"{NETWORK_NAMES[record['network']]}, {words}", *shown))
    where = content["environment"]
    note = (
        f"{where['device']}, torch {where['torch']}, bf16; medians of {content['rounds']} "
        f"interleaved rounds of {content['steps_a_round']} steps."
    )
    return f"{table(('a training step', 'cuDNN', 'ours', 'faster'), rows)}\n\n{note}"


def _content() -> dict[str, Any]:
    return read(BENCHMARKS / "convolutions.json")


def _microseconds(times: dict[str, float]) -> str:
    return f"{times['cudnn']:.1f} → {times['ours']:.1f} µs"


SECTIONS = {"convolution-layers": layers, "convolution-networks": networks}
