"""A small real training problem, and the method written down plainly to compare with."""

import torch
from torch import Tensor, nn

from binaryrelax import BinaryRelax, GeometricGrowth, Schedule, Ternary, measure, select_weights

IMAGES = torch.randn(24, 2, 6, 6, generator=torch.Generator().manual_seed(0))
LABELS = torch.randint(4, (24,), generator=torch.Generator().manual_seed(1))
SHORT = GeometricGrowth.reaching(150.0, phase_one_steps=30, every=3)
SHORTER = GeometricGrowth.reaching(150.0, phase_one_steps=8, every=3)  # ranks take slow steps

PASSING_OVER = [  # what would overwrite weights that somebody else wrote, or pass over them
    lambda optimizer: optimizer.prepare_step(),
    lambda optimizer: optimizer.add_param_group({"params": [nn.Parameter(torch.ones(2))]}),
    lambda optimizer: optimizer.step(lambda: 0.0),
    measure,
    lambda optimizer: optimizer.projected().__enter__(),
]


def small_network(seed: int = 0) -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Conv2d(2, 6, 3, bias=False), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 5, 3),
            nn.ReLU(), nn.Flatten(), nn.Linear(20, 4),
        )  # fmt: skip


def sgd(model: nn.Module, lr: float = 0.05) -> torch.optim.SGD:
    return torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=1e-3)


def wrapped(model: nn.Module, base=sgd, quantizer=None, schedule: Schedule = SHORT) -> BinaryRelax:
    weights = select_weights(model, quantizer or Ternary(), keep_float=("6",))
    return BinaryRelax(base(model), weights, schedule)


def loss_of(model: nn.Module) -> Tensor:
    dtype = next(model.parameters()).dtype
    return nn.functional.cross_entropy(model(IMAGES.to(dtype)), LABELS)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, num_steps: int) -> None:
    for _ in range(num_steps):
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()


def same_bits(a: nn.Module, b: nn.Module) -> bool:
    pairs = zip(a.state_dict().values(), b.state_dict().values(), strict=True)
    return all(torch.equal(x, y) for x, y in pairs)


def train_by_the_paper(model: nn.Module, base, quantizers, schedule: Schedule, num_steps: int):
    """Algorithm 1 without an optimizer class: y beside the model, copied in and out by hand."""
    y = {w: w.detach().clone() for w in quantizers}

    def write_x(strength: float) -> None:
        for w, q in quantizers.items():
            if strength == float("inf"):
                x = q.project(y[w])
            else:
                x = (strength * q.project(y[w]) + y[w]) / (strength + 1)
            w.data.copy_(x)

    write_x(schedule(0))
    for k in range(num_steps):
        base.zero_grad()
        loss_of(model).backward()  # gradient at x
        for w in y:
            w.data.copy_(y[w])
        base.step()
        for w in y:
            y[w].copy_(w.data)
        write_x(schedule(k))
        yield y
