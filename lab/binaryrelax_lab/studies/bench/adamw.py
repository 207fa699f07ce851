"""What BinaryRelax adds to AdamW's step on the weights of a small language model.

The matrices of a Llama-like network of 27 million weights take a batch of tokens, forward and
backward, without attention, norms, embedding and head. A real step does more, so that the shares
found here are upper bounds of its own. Variants take turns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from binaryrelax import (
    Binary,
    BinaryRelax,
    Hard,
    PerGroup,
    Quantizer,
    Ternary,
    TernaryAbsMean,
    TernaryThreshold,
    select_weights,
)
from binaryrelax.kernels.fused_relaxation import FusedRelaxation, is_fusible
from binaryrelax_lab.engine.environment import describe_environment
from binaryrelax_lab.studies import Say
from binaryrelax_lab.studies.bench.timing import (
    device_time,
    gpu_machine,
    graph_time,
    in_turns,
    medians,
)

GROUPS = (64, 256)
QUANTIZERS: tuple[Quantizer, ...] = (
    Binary(),
    TernaryThreshold(),
    TernaryAbsMean(),
    Ternary(),
    *(Binary(granularity=PerGroup(size)) for size in GROUPS),
    *(TernaryAbsMean(granularity=PerGroup(size)) for size in GROUPS),
    *(Ternary(granularity=PerGroup(size)) for size in GROUPS),
)
LEFT_TO_BASE = QUANTIZERS[2], QUANTIZERS[7]  # also with a step that the kernels do not take
ROUNDS, STEPS_A_ROUND, WARM_UP = 9, 8, 4


@dataclass(frozen=True)
class Sizes:
    """Of the network and of its batch."""

    width: int = 512
    hidden: int = 1536
    blocks: int = 8
    tokens: int = 64 * 512

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Inputs and outputs of the matrices: attention's four, and three of the gated MLP."""
        attention = [(self.width, self.width)] * 4
        return (
            attention + [(self.width, self.hidden)] * 2 + [(self.hidden, self.width)]
        ) * self.blocks


class OwnAdamW(torch.optim.AdamW):
    """A subclass may step otherwise, so the kernels leave its step to it."""


class TokenSteps:
    """Training steps of the matrices alone, in bf16 autocast.

    Args:
        quantizer: None for plain AdamW.
        kind: of the optimizer that moves the float weights.
    """

    def __init__(
        self,
        sizes: Sizes,
        quantizer: Quantizer | None,
        device: torch.device,
        kind: type[torch.optim.AdamW] = torch.optim.AdamW,
    ) -> None:
        torch.manual_seed(0)
        self.shapes = sizes.shapes
        self.layers = nn.ModuleList(
            nn.Linear(*shape, bias=False, device=device) for shape in self.shapes
        )
        self.inputs = {
            width: torch.randn(sizes.tokens, width, device=device, dtype=torch.bfloat16)
            for width in {inputs for inputs, _ in sizes.shapes}
        }
        base = kind(self.layers.parameters(), lr=1e-3, fused=device.type == "cuda")
        self.optimizer: torch.optim.Optimizer = base
        if quantizer is not None:
            self.optimizer = BinaryRelax(base, select_weights(self.layers, quantizer), Hard())

    def take(self, count: int) -> None:
        """That many whole steps."""
        for _ in range(count):
            self.optimizer.zero_grad()
            self.accumulate()
            self.optimizer.step()

    def accumulate(self) -> None:
        """Gradients of all weights."""
        device = next(iter(self.inputs.values())).device.type
        for layer, (width, _) in zip(self.layers, self.shapes, strict=True):
            with torch.autocast(device, torch.bfloat16):
                outputs = layer(self.inputs[width])
            outputs.backward(outputs.detach())


def bench_adamw(say: Say) -> dict[str, Any]:
    """All measurements, as the content of the JSON file; needs a CUDA device; about two minutes."""
    machine, sizes = gpu_machine("adamw"), Sizes()
    with machine.settings():
        return {
            "environment": describe_environment(machine),
            "weights": sum(inputs * outputs for inputs, outputs in sizes.shapes),
            "tokens": sizes.tokens,
            "rounds": ROUNDS,
            "steps_a_round": STEPS_A_ROUND,
            "steps": _measure_steps(sizes, machine.device, say),
            "kernels": _measure_kernels(sizes, machine.device, say),
        }


def _measure_steps(sizes: Sizes, device: torch.device, say: Say) -> list[dict[str, Any]]:
    """Milliseconds of whole steps, and of ``optimizer.step()`` alone, with their shares."""
    steps = {"AdamW": TokenSteps(sizes, None, device)}
    for quantizer in QUANTIZERS:
        steps[repr(quantizer)] = TokenSteps(sizes, quantizer, device)
    for quantizer in LEFT_TO_BASE:
        steps[f"{quantizer!r}, base steps"] = TokenSteps(sizes, quantizer, device, OwnAdamW)
    for taker in steps.values():
        taker.take(WARM_UP)
    whole = {name: partial(_step_time, taker.take) for name, taker in steps.items()}
    alone = {name: partial(_step_time, partial(_steps_alone, t)) for name, t in steps.items()}
    typical, optimizer = medians(in_turns(whole, ROUNDS)), medians(in_turns(alone, ROUNDS))
    records = []
    for name in steps:
        share = (typical[name] - typical["AdamW"]) / typical["AdamW"]
        say(f"{name:50s} {typical[name]:.3f} ms per step ({100 * share:+.1f} %), "
            f"optimizer.step() {optimizer[name]:.3f} ms")  # fmt: skip
        records.append(
            {
                "variant": name,
                "milliseconds": typical[name],
                "share": share,
                "optimizer_milliseconds": optimizer[name],
            }
        )
    return records


def _step_time(take: Callable[[int], None]) -> float:
    return device_time(partial(take, STEPS_A_ROUND)) / STEPS_A_ROUND


def _steps_alone(taker: TokenSteps, count: int) -> None:
    """Steps with the gradients that the last whole step has left."""
    for _ in range(count):
        taker.optimizer.step()


def _measure_kernels(sizes: Sizes, device: torch.device, say: Say) -> list[dict[str, Any]]:
    """Milliseconds to relax all weights inside a CUDA graph, by the kernels and by torch."""
    ys = [torch.randn(outputs, inputs, device=device) for inputs, outputs in sizes.shapes]
    pairs: list[tuple[Tensor, Tensor]] = [(torch.empty_like(y), y) for y in ys]
    mix = torch.tensor(0.7, dtype=torch.float64, device=device)
    records = [{"variant": "copy", "kernels": graph_time(lambda: _copy(pairs)), "torch": None}]
    for quantizer in QUANTIZERS:
        assert all(is_fusible(x, y, quantizer) for x, y in pairs)
        fused = FusedRelaxation(quantizer, pairs)
        reference = partial(_project, quantizer, ys)
        reference()
        records.append(
            {
                "variant": repr(quantizer),
                "kernels": graph_time(partial(fused, mix)),
                "torch": min(device_time(reference) for _ in range(3)),
            }
        )
    for record in records:
        other = "" if record["torch"] is None else f", torch {record['torch']:.3f} ms"
        say(f"{record['variant']:50s} kernels {record['kernels']:.3f} ms{other}")
    return records


def _copy(pairs: list[tuple[Tensor, Tensor]]) -> None:
    torch._foreach_copy_([x for x, _ in pairs], [y for _, y in pairs])


def _project(quantizer: Quantizer, ys: list[Tensor]) -> None:
    for y in ys:
        quantizer.project_finite(y)
