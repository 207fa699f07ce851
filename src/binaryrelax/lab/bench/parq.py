"""The nearest relative, to compare with: BinaryRelax as torchao's PARQ has it."""

from torch import nn
from torch.optim import SGD, Optimizer

NUM_STEPS = 1_000_000  # far more than a benchmark takes: the relaxation stays in its first phase


def parq_optimizer(model: nn.Module, *, fused: bool) -> Optimizer:
    """SGD around which PARQ relaxes all convolutions to one bit, refreshing Q at every step.

    Raises:
        ImportError: torchao is not installed.
    """
    from torchao.prototype.parq.optim import ProxBinaryRelax, QuantOptimizer
    from torchao.prototype.parq.quant import LSBQuantizer

    convolutions = [m.weight for m in model.modules() if isinstance(m, nn.Conv2d)]
    known = {id(weight) for weight in convolutions}
    others = [p for p in model.parameters() if id(p) not in known]
    groups = [{"params": convolutions, "quant_bits": 1}, {"params": others}]
    base = SGD(groups, lr=0.1, momentum=0.95, weight_decay=1e-4, fused=fused or None)
    return QuantOptimizer(
        base, LSBQuantizer(), ProxBinaryRelax(0, NUM_STEPS), warmup_steps=0, quant_period=1
    )
