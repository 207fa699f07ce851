"""Histograms of a layer's weights, one per epoch, in units of the layer's scale.

In these units Q stays where it is, at the codes (-1 and 1, or -1, 0 and 1), and the weights move.
"""

from typing import Any

import torch
from torch import Tensor

from binaryrelax import Quantizer, distance
from binaryrelax.lab.recipes import plain

BIN_WIDTH = 0.1
NUM_BINS_EACH_SIDE = 30  # the middle bin has its centre at 0, and codes are centres too


class WeightHistograms:
    """Collects the histograms of one layer during a run."""

    def __init__(self, name: str, weight: Tensor, quantizer: Quantizer) -> None:
        self.name, self.weight, self.quantizer = name, weight, quantizer
        self.snapshots: list[dict[str, Any]] = []

    def take(self, *, epoch: int | None, phase: int | None, strength: float | None) -> None:
        """Adds the histogram of the weights as the network holds them now.

        Args:
            epoch: None for the weights before training.
            phase: 1 or 2; None in a float run and before training.
            strength: the λ that wrote the weights; 0 before training, None in a float run.
        """
        weight = self.weight.detach()
        scale, _ = self.quantizer.split(weight)
        self.snapshots.append(
            {
                "epoch": epoch,
                "phase": phase,
                "strength": plain(strength),
                "scale": scale.double().mean().item(),
                "distance": distance(weight, self.quantizer).item(),
                "counts": _counts(weight / scale.clamp(min=torch.finfo(scale.dtype).tiny)),
            }
        )

    def as_json(self) -> dict[str, Any]:
        """The content of ``histograms.json``; weights outside of all bins are not counted."""
        edge = NUM_BINS_EACH_SIDE * BIN_WIDTH
        return {
            "layer": self.name,
            "num_weights": self.weight.numel(),
            "codebook": list(self.quantizer.codebook),
            "unit": "weight divided by the scale of its projection",
            "first_centre": -edge,
            "bin_width": BIN_WIDTH,
            "snapshots": self.snapshots,
        }


def _counts(values: Tensor) -> list[int]:
    """How many values lie in each bin."""
    edge = (NUM_BINS_EACH_SIDE + 0.5) * BIN_WIDTH
    num_bins = 2 * NUM_BINS_EACH_SIDE + 1
    return torch.histc(values.cpu(), bins=num_bins, min=-edge, max=edge).int().tolist()
