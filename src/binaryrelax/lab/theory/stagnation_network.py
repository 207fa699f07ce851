"""The same as `stagnation`, on the network of the demo and the embedded images."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import SGD

from binaryrelax.lab.data import load_fashion_mnist
from binaryrelax.lab.models import build_network
from binaryrelax.lab.theory.rounding import rounded
from binaryrelax.optim import BinaryRelax, GeometricGrowth, Hard, ProjectedGradient, select_weights
from binaryrelax.quantizers import Binary

RATES = (0.3, 0.1, 0.03, 0.01, 0.003)
BATCH_SIZE, FLOAT_RATE = 64, 0.05
FINAL_STRENGTH = 150.0
METHODS = ("projected gradient", "BinaryConnect", "BinaryRelax")


class Images:
    """The embedded images in a fixed order, batch after batch."""

    def __init__(self, seed: int) -> None:
        self.data = load_fashion_mnist()
        source = torch.Generator().manual_seed(seed)
        self.order = torch.randperm(self.data.num_train, generator=source)

    def batch(self, number: int) -> tuple[Tensor, Tensor]:
        """Images and labels; after the last one the first comes again."""
        places = torch.arange(number * BATCH_SIZE, (number + 1) * BATCH_SIZE) % len(self.order)
        rows = functional.pad(self.order[places].int()[:, None], (0, 3))
        return self.data.look_up(rows)


def stagnation_on_network(
    *, num_steps: int = 40, float_steps: int = 150, rates: tuple[float, ...] = RATES
) -> dict[str, Any]:
    """Binary weights from the same float network by each method, plain SGD, at each rate."""
    images = Images(seed=0)
    beginning = _float_network(images, float_steps)
    records = [
        _train(images, beginning, method, rate, num_steps, float_steps)
        for rate in rates
        for method in METHODS
    ]
    return {
        "network": "small-conv",
        "dataset": "fashion-mnist-12k",
        "batch_size": BATCH_SIZE,
        "float_steps": float_steps,
        "steps": num_steps,
        "final_strength": FINAL_STRENGTH,
        "records": records,
    }


def _network() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return build_network("small-conv", 1, 10)


def _float_network(images: Images, num_steps: int) -> dict[str, Tensor]:
    """The weights after a short training without quantization."""
    model = _network()
    optimizer = SGD(model.parameters(), lr=FLOAT_RATE, momentum=0.9)
    for step in range(num_steps):
        _step(model, optimizer, images, step)
    return model.state_dict()


def _step(model: nn.Module, optimizer: torch.optim.Optimizer, images: Images, step: int) -> float:
    pixels, labels = images.batch(step)
    optimizer.zero_grad()
    loss = functional.cross_entropy(model(pixels), labels)
    loss.backward()
    optimizer.step()
    return loss.item()


def _optimizer(method: str, model: nn.Module, rate: float, num_steps: int) -> BinaryRelax:
    weights = select_weights(model, Binary(), keep_float=("fc",))
    base = SGD(model.parameters(), lr=rate)
    if method == "projected gradient":
        return ProjectedGradient(base, weights)
    phase_one = num_steps * 4 // 5
    relaxed = GeometricGrowth.reaching(FINAL_STRENGTH, phase_one_steps=phase_one, every=1)
    return BinaryRelax(base, weights, Hard() if method == "BinaryConnect" else relaxed)


def _train(
    images: Images, beginning: dict[str, Tensor], method: str, rate: float, steps: int, skip: int
) -> dict[str, Any]:
    """Trains anew from `beginning` on the batches after the first `skip`."""
    model = _network()
    model.load_state_dict(beginning)
    optimizer = _optimizer(method, model, rate, steps)
    first = _signs(optimizer)
    changed = [torch.zeros_like(signs) for signs in first]
    losses = []
    for step in range(steps):
        losses.append(_step(model, optimizer, images, skip + step))
        for ever, before, now in zip(changed, first, _signs(optimizer), strict=True):
            ever |= before != now
    num_changed = sum(int(ever.sum()) for ever in changed)
    num_weights = sum(ever.numel() for ever in changed)
    late = losses[-max(1, steps // 5) :]
    return {
        "method": method,
        "rate": rate,
        "weights": num_weights,
        "num_changed": num_changed,
        "changed": rounded(num_changed / num_weights),
        "first_loss": rounded(losses[0], 4),
        "loss": rounded(sum(late) / len(late), 4),
    }


def _signs(optimizer: BinaryRelax) -> list[Tensor]:
    """The level of each weight: the sign of y, which is that of its projection."""
    return [weight.detach() >= 0 for weight in optimizer.quantizers]
