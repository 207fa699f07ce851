"""The classical projected gradient (eq. 2) stagnates at small learning rates; the others do not.

Its float point starts at x again in every step, so a step that does not reach the next level is
rounded off and forgotten. What it can still do is move along the line that it is on. Measured on
quadratics, and on the network of the demo with the embedded images.
"""

from collections.abc import Iterable
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import SGD

from binaryrelax import (
    Binary,
    BinaryRelax,
    GeometricGrowth,
    Hard,
    PerChannel,
    ProjectedGradient,
    Quantizer,
    Ternary,
    select_weights,
)
from binaryrelax_lab.data import load_fashion_mnist
from binaryrelax_lab.models import build_network
from binaryrelax_lab.report.drawing import COLOURS, label, legend_below, panels, title
from binaryrelax_lab.studies.theory.families import QuadraticFamily
from binaryrelax_lab.studies.theory.iterations import (
    BINARY_CONNECT,
    PROJECTED_GRADIENT,
    Descent,
    Method,
    cosine_rates,
)
from binaryrelax_lab.studies.theory.method_colours import METHOD_COLOURS, colour_of
from binaryrelax_lab.studies.theory.significant_digits import rounded

RATES = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003)  # times 1/L, and L = 1
FINAL_STRENGTH = 150.0
SETS = {"binary": Binary(granularity=PerChannel()), "ternary": Ternary(granularity=PerChannel())}
NETWORK_RATES = (0.3, 0.1, 0.03, 0.01, 0.003)
BATCH_SIZE, FLOAT_RATE = 64, 0.05
METHODS = ("projected gradient", "BinaryConnect", "BinaryRelax")
STYLES = {"binary": "-", "ternary": "--"}
TERNARY_COLOURS = {
    **METHOD_COLOURS,
    "BinaryConnect": COLOURS["twn"],
    "BinaryRelax": COLOURS["ternary"],
}
NONE = 2e-6  # where no weight at all is drawn; one weight of the network is 1e-5


def stagnation() -> dict[str, Any]:
    """Small learning rates, on quadratics and on a network."""
    return {"quadratics": stagnation_on_quadratics(), "network": stagnation_on_network()}


def stagnation_on_quadratics(
    *,
    num_members: int = 10,
    num_weights: int = 64,
    distance: float = 12.0,
    rates: tuple[float, ...] = RATES,
) -> dict[str, Any]:
    """What each method does at each learning rate, with equally much learning in each run.

    Args:
        distance: the sum of a run's learning rates, which fall to 0 along a cosine. A run at a
            small rate takes more steps, so that it is not at a disadvantage.
    """
    family = QuadraticFamily.random(num_members, num_weights, condition=10.0, seed=5)
    source = torch.Generator().manual_seed(0)
    starts = torch.randn((num_members, 1, num_weights), generator=source, dtype=torch.float64)
    records = []
    for name, quantizer in SETS.items():
        for rate in rates:
            falling = cosine_rates(rate, round(2 * distance / rate))
            records += _at_rate(family, quantizer, starts, falling, name)
    return {
        "members": num_members,
        "weights": num_weights,
        "condition": 10.0,
        "distance": distance,
        "final_strength": FINAL_STRENGTH,
        "records": records,
    }


def methods_of(num_steps: int) -> list[Method]:
    """The three methods; BinaryRelax has its Phase I in the first four fifths."""
    schedule = GeometricGrowth.reaching(FINAL_STRENGTH, phase_one_steps=num_steps * 4 // 5, every=1)
    return [PROJECTED_GRADIENT, BINARY_CONNECT, Method("BinaryRelax", schedule)]


def _at_rate(
    family: QuadraticFamily, quantizer: Quantizer, starts: Tensor, rates: list[float], name: str
) -> list[dict[str, Any]]:
    methods = methods_of(len(rates))
    descent = Descent(family.gradient, quantizer, rates)
    run = descent.run(methods, starts)
    _, first = next(run)
    changed, last = torch.zeros_like(first, dtype=torch.bool), first
    for _, last in run:
        changed |= last.sign() != first.sign()
    relative = family.value(last) / family.value(first)
    return [
        {
            "set": name,
            "method": method.name,
            "rate": rates[0],
            "steps": len(rates),
            "changed": rounded(changed[i].double().mean()),
            "loss": rounded(relative[i].mean()),
        }
        for i, method in enumerate(methods)
    ]


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
    *, num_steps: int = 40, float_steps: int = 150, rates: tuple[float, ...] = NETWORK_RATES
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


def draw_stagnation(data: dict[str, Any]) -> Figure:
    """Shares of weights that change level above, losses below."""
    figure, (top, network_top, bottom, network_bottom) = panels(2, 2, size=(12, 8.2))
    _draw_quadratics(top, data["quadratics"]["records"], "changed")
    _draw_quadratics(bottom, data["quadratics"]["records"], "loss")
    _draw_network(network_top, data["network"]["records"], "changed")
    _draw_network(network_bottom, data["network"]["records"], "loss")
    title(top, "Quadratics: weights that ever change level")
    title(bottom, "Quadratics: loss at the end, start = 1")
    title(network_top, "Demo network: weights that ever change level")
    title(network_bottom, "Demo network: training loss at the end")
    top.yaxis.set_major_formatter(PercentFormatter(1, 0))
    top.set_ylim(0, 1)
    bottom.set_ylim(0, 0.75)
    _mark_zero(network_top)
    legend_below(figure, top, (0, 3, 1, 4, 2, 5))  # a column for each method
    return figure


def _draw_quadratics(axes: Axes, records: list[dict[str, Any]], key: str) -> None:
    for kind, style in STYLES.items():
        colours = METHOD_COLOURS if kind == "binary" else TERNARY_COLOURS
        for method, mine in by_method(r for r in records if r["set"] == kind).items():
            axes.plot(
                [r["rate"] for r in mine], [r[key] for r in mine], style, marker="o", ms=5, lw=2.2,
                color=colours[method], label=f"{method}, {kind}",
            )  # fmt: skip
    axes.set_xscale("log")
    label(axes, x="first learning rate × L (equal sums of learning rates)")


def _draw_network(axes: Axes, records: list[dict[str, Any]], key: str) -> None:
    for method, mine in by_method(records).items():
        floor = NONE if key == "changed" else 0.0
        axes.plot(
            [r["rate"] for r in mine], [max(r[key], floor) for r in mine], "-", marker="o", ms=5,
            lw=2.2, color=colour_of(method),
        )  # fmt: skip
    axes.set_xscale("log")
    label(axes, x="learning rate (equal numbers of steps)")


def _mark_zero(axes: Axes) -> None:
    """A logarithmic scale has no 0: none at all is drawn at its foot."""
    axes.set_yscale("log")
    axes.set_ylim(NONE / 1.8, 0.3)
    ticks = [NONE, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1]
    axes.set_yticks(ticks, ["none", "0.001 %", "0.01 %", "0.1 %", "1 %", "10 %"])
    axes.minorticks_off()


def by_method(records: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The records of each method, in the order they come."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        groups.setdefault(record["method"], []).append(record)
    return groups
