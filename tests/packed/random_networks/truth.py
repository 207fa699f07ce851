"""What a network gives, and how far rounding may lead away from it."""

import math
from functools import cached_property

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from tests.packed.random_networks.case import LAYERS, Case

# As a share of the largest output: what the last rounding may do, however exact all others are.
ROUNDING = {torch.float32: 5e-6, torch.float64: 5e-6, torch.float16: 0.01, torch.bfloat16: 0.05}
Outputs = list[list[Tensor]]  # by batch


@torch.no_grad()
def outputs(model: nn.Module, batches: list[Tensor]) -> Outputs:
    return [[leaf.clone() for leaf in tree_leaves(model(x))] for x in batches]


class Truth:
    """What the float network gives, and how far rounding may lead away from it."""

    def __init__(self, case: Case):
        self.case = case
        model, _ = case.in_q()
        self.own = outputs(model, case.batches())
        model, _ = case.in_q()
        self.exact = outputs(model.double(), case.batches(torch.float64))
        columns = zip(*self.exact, strict=True)  # by output
        self.sizes = [max(float(t.abs().max()) for t in leaves) for leaves in columns]

    def error(self, found: Outputs) -> float:
        """The largest difference, as a share of the largest output."""
        worst = 0.0
        for batch, expected in zip(found, self.exact, strict=True):
            for a, b, size in zip(batch, expected, self.sizes, strict=True):
                difference = float((a.double() - b).abs().max()) / max(size, 1e-30)
                worst = max(worst, math.inf if math.isnan(difference) else difference)
        return worst

    def allowed(self, *roundings: str) -> float:
        """What these roundings may make of the outputs: several times what they do make."""
        return ROUNDING[self.case.dtype] + sum(
            {"own": 8 * self.own_error, "int8": 0.02 + 6 * self.int8_error,
             "bfloat16": 0.02 + 6 * self.bfloat16_error}[rounding]
            for rounding in ("own", *roundings)
        )  # fmt: skip

    @cached_property
    def own_error(self) -> float:
        return self.error(self.own)

    @cached_property
    def bfloat16(self) -> Outputs:
        model, _ = self.case.in_q()
        return outputs(model.bfloat16(), self.case.batches(torch.bfloat16))

    @cached_property
    def bfloat16_error(self) -> float:
        return self.error(self.bfloat16)

    @cached_property
    def int8_error(self) -> float:
        """Of the float network when inputs of its layers are rounded to 8 bits."""
        model, weights = self.case.in_q()
        for module in model.modules():
            if isinstance(module, LAYERS) and module._parameters.get("weight") in weights:
                module.register_forward_pre_hook(_rounded_to_int8)
        return self.error(outputs(model, self.case.batches()))


def _rounded_to_int8(module: nn.Module, arguments: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    x = arguments[0]
    dims = (-1,) if isinstance(module, nn.Linear) else tuple(range(1, x.dim()))
    scale = x.abs().amax(dims, keepdim=True).clamp_min(1e-12) / 127
    return ((x / scale).round() * scale, *arguments[1:])
