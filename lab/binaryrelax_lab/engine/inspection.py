"""What the weights in a file are, seen from the file alone."""

from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from binaryrelax import Quantizer, distance
from binaryrelax_lab.results import LayerFacts, NetworkSize

FLOAT_BITS = 32


def inspect_layers(path: Path, quantizers: dict[str, Quantizer | None]) -> tuple[LayerFacts, ...]:
    """One record per layer of a checkpoint, read back from the disk.

    Args:
        path: the safetensors file.
        quantizers: the set Q that each of the named weights should lie in, or None if it is float.
    """
    tensors = load_file(path)
    return tuple(_layer_facts(name, tensors[name], q) for name, q in quantizers.items())


def size_of_network(path: Path, layers: Sequence[LayerFacts]) -> NetworkSize:
    """Bytes and bits of a checkpoint's parameters if each layer were stored at its own width.

    Statistics of batch normalization are counted (they are needed to run the network), counters of
    steps are not.
    """
    tensors = load_file(path).values()
    num_values = sum(tensor.numel() for tensor in tensors if tensor.is_floating_point())
    num_weights = sum(layer.num_weights for layer in layers)
    stored_bits = sum(layer.stored_bits for layer in layers)
    return NetworkSize(
        bits_per_weight=stored_bits / num_weights,
        layers_bytes=stored_bits / 8,
        layers_bytes_float=num_weights * FLOAT_BITS / 8,
        network_bytes=(stored_bits + (num_values - num_weights) * FLOAT_BITS) / 8,
        network_bytes_float=num_values * FLOAT_BITS / 8,
    )


def is_in_q(weight: Tensor, quantizer: Quantizer) -> bool:
    """Whether the weight is exactly scale * codes: its projection has the very same bits."""
    return torch.equal(quantizer.project(weight), weight)


def _layer_facts(name: str, weight: Tensor, quantizer: Quantizer | None) -> LayerFacts:
    """What one weight is; distance and membership are None for a float one."""
    num_weights, distinct_values = weight.numel(), weight.unique().numel()
    bits, num_scales, gap, inside = FLOAT_BITS, 0, None, None
    if quantizer is not None:
        bits, num_scales = quantizer.bits, len(quantizer.granularity.rows(weight))
        gap = distance(weight, quantizer).item()
        fits_codebook = distinct_values <= num_scales * len(quantizer.codebook)
        inside = fits_codebook and is_in_q(weight, quantizer)
    stored_bits = num_weights * bits + num_scales * FLOAT_BITS
    return LayerFacts(
        name=name,
        num_weights=num_weights,
        distinct_values=distinct_values,
        num_zeros=num_weights - int(weight.count_nonzero()),
        distance=gap,
        in_q=inside,
        stored_bits=stored_bits,
        bits_per_weight=stored_bits / num_weights,
    )
