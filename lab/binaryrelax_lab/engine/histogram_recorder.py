"""Takes histograms of a layer's weights during a run, one per epoch."""

from __future__ import annotations

import torch
from torch import Tensor

from binaryrelax import Quantizer, distance
from binaryrelax_lab.results import Snapshot, WeightHistograms

BIN_WIDTH = 0.1
NUM_BINS_EACH_SIDE = 30  # the middle bin has its centre at 0, and codes are centres too


class HistogramRecorder:
    """Watches one layer."""

    def __init__(self, name: str, weight: Tensor, quantizer: Quantizer) -> None:
        self.name, self.weight, self.quantizer = name, weight, quantizer
        self.snapshots: list[Snapshot] = []

    def take(self, *, epoch: int | None, phase: int | None, strength: float | None) -> None:
        """Adds the histogram of the weights as the network holds them now."""
        weight = self.weight.detach()
        scale, _ = self.quantizer.split(weight)
        in_scales = weight / scale.clamp(min=torch.finfo(scale.dtype).tiny)
        self.snapshots.append(
            Snapshot(
                epoch=epoch,
                phase=phase,
                strength=strength,
                scale=scale.double().mean().item(),
                distance=distance(weight, self.quantizer).item(),
                counts=_counts(in_scales),
            )
        )

    def histograms(self) -> WeightHistograms:
        """All that were taken."""
        return WeightHistograms(
            layer=self.name,
            num_weights=self.weight.numel(),
            codebook=self.quantizer.codebook,
            first_centre=-NUM_BINS_EACH_SIDE * BIN_WIDTH,
            bin_width=BIN_WIDTH,
            snapshots=tuple(self.snapshots),
        )


def _counts(values: Tensor) -> tuple[int, ...]:
    """How many values lie in each bin."""
    edge = (NUM_BINS_EACH_SIDE + 0.5) * BIN_WIDTH
    num_bins = 2 * NUM_BINS_EACH_SIDE + 1
    return tuple(torch.histc(values.cpu(), bins=num_bins, min=-edge, max=edge).int().tolist())
