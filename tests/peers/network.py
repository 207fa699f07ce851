"""A network of another library, as the comparisons need it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

Inputs = dict[str, Tensor]


@dataclass(frozen=True)
class Network:
    """How to build a network and what to ask it.

    Args:
        name: as its library calls it.
        family: networks of one family have their layers in common.
        library: "transformers" or "timm".
        make: builds it with random weights.
        make_inputs: what it is called with, by name; the same at every call.
        num_tokens: how many it generates after ``inputs``; 0 if it generates none.
    """

    name: str
    family: str
    library: str
    make: Callable[[], nn.Module]
    make_inputs: Callable[[], Inputs]
    num_tokens: int = 0

    def built(self, seed: int) -> nn.Module:
        """The network with weights of its own for each seed, for evaluation."""
        torch.manual_seed(seed)
        model = self.make().eval()
        enliven_(model)
        return model


@torch.no_grad()
def enliven_(model: nn.Module) -> None:
    """Moves every vector and scalar, and every matrix that is constant: these hide mistakes.

    As initialized, many are zero or one. A bias of zero can be lost, behind a residual branch of
    gain zero anything can happen, and a last layer of zeros gives the same for all inputs.
    """
    for parameter in model.parameters():
        if parameter.dim() < 2 or bool((parameter == parameter.flatten()[0]).all()):
            parameter.add_(0.1 * torch.randn_like(parameter))


@torch.no_grad()
def measure_batch_statistics_(model: nn.Module, inputs: Inputs) -> None:
    """Gives batch normalizations the statistics of these inputs, as a trained network has them."""
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    before = [norm.momentum for norm in norms]
    for norm in norms:
        norm.train()
        norm.momentum = 1.0
    if norms:
        model(**inputs)
    for norm, momentum in zip(norms, before, strict=True):
        norm.eval()
        norm.momentum = momentum
