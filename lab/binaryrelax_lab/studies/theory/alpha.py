"""Which α occur: on the test problems, layer by layer, step by step, and in the demo's network."""

from __future__ import annotations

from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from binaryrelax import Binary, Quantizer, Ternary, TernaryThreshold, Uniform, measure, monitor
from binaryrelax_lab.data import load_fashion_mnist
from binaryrelax_lab.recipes import Recipe, demo_bwn, demo_twn
from binaryrelax_lab.report.drawing import COLOURS, GRID, INK, QUIET, label, legend, panels, title
from binaryrelax_lab.studies.quantized_training import relaxation_of, started
from binaryrelax_lab.studies.theory.counterexamples import endless_changes
from binaryrelax_lab.studies.theory.iterations import (
    LayerWise,
    Trajectory,
    binary_connect,
    constant,
    harmonic,
)
from binaryrelax_lab.studies.theory.problems import (
    Problem,
    Quadratic,
    TwoLayerNetwork,
    figure_one,
    random_numbers,
)
from binaryrelax_lab.studies.theory.quantities import alphas, changes_line, movements
from binaryrelax_lab.studies.theory.significant_digits import rounded

SETS: tuple[Quantizer, ...] = (Binary(), Ternary(), Uniform(bits=3), TernaryThreshold())
ROUNDING = 1e-5  # of a smaller relative movement, α is the rounding of x
NUM_STEPS = 1000
NUM_DEMO_STEPS = 30
MOST_POINTS = 400  # in the figure
BELOW_ZERO = "#b4235a"  # the colour of ranges that the lemma does not allow


def alpha_statistics() -> dict[str, Any]:
    """All that is known of α: its ranges, and two runs step by step."""
    return {**alpha_ranges(), "along_runs": alpha_by_step()}


def alpha_ranges() -> dict[str, Any]:
    """The range of α_k of every problem, of every layer, and of the demo's layers."""
    return {
        "one_scale": [*_quadratics(), *_plane(), *_networks()],
        "one_scale_per_layer": [_by_layer(quantizer) for quantizer in SETS],
        "demo": [_demo(recipe) for recipe in (demo_bwn(), demo_twn())],
    }


def _quadratics() -> list[dict[str, Any]]:
    problem = Quadratic.random(8, L=2.0, sigma=1.0, seed=3)
    start, sizes = random_numbers(8, seed=5), harmonic(0.1, NUM_STEPS)
    return [_range_of("quadratic", problem, quantizer, start, sizes) for quantizer in SETS]


def _plane() -> list[dict[str, Any]]:
    problem, quantizer = figure_one(0.5)
    sizes = constant(0.1, NUM_STEPS)
    return [_range_of("figure 1", problem, quantizer, random_numbers(2, seed=2), sizes)]


def _network() -> tuple[TwoLayerNetwork, Tensor]:
    problem = TwoLayerNetwork.random(batch_size=8, radius=5.0)
    return problem, random_numbers(problem.num_weights, seed=1) / 2


def _networks() -> list[dict[str, Any]]:
    problem, start = _network()
    sizes = constant(0.02, NUM_STEPS)
    return [_range_of("network", problem, quantizer, start, sizes) for quantizer in SETS]


def _range_of(
    name: str, problem: Problem, quantizer: Quantizer, start: Tensor, sizes: tuple[float, ...]
) -> dict[str, Any]:
    run = binary_connect(problem, quantizer, start, sizes)
    return {"problem": name, "quantizer": repr(quantizer), "steps": len(run), **_described(run)}


def _described(run: Trajectory) -> dict[str, Any]:
    """α over all steps that moved x; off the changes of line it is 1."""
    found, changed = alphas(run), changes_line(run)
    has_moved = movements(run) > ROUNDING * run.x[:-1].norm(dim=1)
    off = (found[~changed & has_moved] - 1).abs()
    return {
        "line_changes": int(changed.sum()),
        "alpha": [rounded(found[has_moved].min()), rounded(found[has_moved].max())],
        "alpha_at_changes": _spread(found[changed]),
        "largest_error_from_1_between_changes": rounded(off.max(), 2) if len(off) else 0.0,
    }


def _spread(values: Tensor) -> list[float] | None:
    """Least, median and largest."""
    if len(values) == 0:
        return None
    return [rounded(values.min()), rounded(values.median()), rounded(values.max())]


def _by_layer(quantizer: Quantizer) -> dict[str, Any]:
    problem, start = _network()
    sizes = problem.layer_sizes
    q = LayerWise(quantizer, sizes)
    run = binary_connect(problem, q, start, constant(0.02, NUM_STEPS))
    parts = zip(run.x.split_with_sizes(sizes, 1), run.y.split_with_sizes(sizes, 1), strict=True)
    layers = [Trajectory(x, y, run.step_sizes, run.gradients) for x, y in parts]
    whole = alphas(run)
    return {
        "quantizer": repr(quantizer),
        "steps": len(run),
        "layers": [_described(layer) for layer in layers],
        "network": _spread(whole[~whole.isnan()]),
    }


def _demo(recipe: Recipe) -> dict[str, Any]:
    """The first steps of a recipe of the demo, momentum and all, from a network at random."""
    trainer = started(recipe, load_fashion_mnist())
    optimizer = relaxation_of(trainer)
    found: dict[str, list[tuple[float, float]]] = {}
    with monitor(optimizer):
        for _, _step in zip(range(NUM_DEMO_STEPS), trainer.steps(), strict=False):
            for record in measure(optimizer):
                if record.alpha is not None and record.level_flips is not None:
                    pair = (record.alpha, record.level_flips)
                    found.setdefault(record.name, []).append(pair)
    return {
        "recipe": recipe.name,
        "quantizer": repr(recipe.quantizer),
        "steps": NUM_DEMO_STEPS,
        "layers": [_demo_layer(name, pairs) for name, pairs in found.items()],
    }


def _demo_layer(name: str, pairs: list[tuple[float, float]]) -> dict[str, Any]:
    values = torch.tensor([alpha for alpha, _ in pairs], dtype=torch.float64)
    changes = sum(flips > 0 for _, flips in pairs)
    return {"name": name, "line_changes": changes, "steps": len(pairs), "alpha": _spread(values)}


def alpha_by_step(*, num_steps: int = 4000) -> dict[str, Any]:
    """α_k at changes of line and γ_k: on a noisy quadratic, and where nothing ever settles."""
    problem = Quadratic.random(8, L=2.0, sigma=1.0, seed=3)
    sizes = harmonic(0.1, num_steps)
    noisy = binary_connect(problem, Binary(), random_numbers(8, seed=5), sizes)
    _, endless = endless_changes(num_steps)
    return {"noisy": _changes(noisy), "without_noise": _changes(endless)}


def _changes(run: Trajectory) -> dict[str, Any]:
    """Steps that changed line, their α and their γ; so many that the figure is not overfull."""
    found, changed = alphas(run), changes_line(run)
    steps = changed.nonzero()[:, 0].tolist()
    shown = steps[:: max(1, len(steps) // MOST_POINTS)]
    return {
        "steps": len(run),
        "line_changes": len(steps),
        "points": [
            [step, rounded(found[step], 4), rounded(run.step_sizes[step], 4)] for step in shown
        ],
    }


def draw_alpha(data: dict[str, Any]) -> Figure:
    """α at changes of line: step by step on the left, its range on each problem on the right."""
    figure, (left, right) = panels(1, 2, size=(13.5, 5.4), width_ratios=(1, 1.15))
    _draw_steps(left, data["along_runs"])
    _draw_ranges(right, data["one_scale"])
    return figure


def _draw_steps(axes: Axes, runs: dict[str, Any]) -> None:
    names = {"noisy": "quadratic with noise, n = 8", "without_noise": "no noise, n = 2"}
    for key, colour in (("noisy", COLOURS["bwn"]), ("without_noise", COLOURS["ternary"])):
        steps, alphas, _ = zip(*runs[key]["points"], strict=True)
        axes.semilogy(steps, alphas, "o", ms=3, color=colour, label=f"α: {names[key]}")
    steps, _, sizes = zip(*runs["without_noise"]["points"], strict=True)
    axes.semilogy(steps, sizes, color=INK, lw=1.8, label="learning rate γ")
    axes.set_ylim(1e-6, 3)
    title(axes, "α at the steps that change line falls with γ")
    label(axes, x="step")
    legend(axes, loc="lower left", markerscale=2.2)


def _draw_ranges(axes: Axes, records: list[dict[str, Any]]) -> None:
    """Least, median and largest α at changes; below 0 only with the threshold."""
    names = []
    for row, record in enumerate(records):
        low, middle, high = record["alpha_at_changes"]
        colour = BELOW_ZERO if low < 0 else COLOURS["binary"]
        axes.hlines(row, low, high, color=colour, lw=5, alpha=0.35)
        axes.plot(middle, row, "o", color=colour, ms=8)
        axes.annotate(
            f"{record['line_changes']} changes", (0.72, row), xytext=(0, -4),
            textcoords="offset points", color=QUIET, size=10.5,
        )  # fmt: skip
        quantizer = record["quantizer"].replace("(ratio=0.7)", "").replace("()", "")
        names.append(f"{record['problem']}, {quantizer}")
    axes.set_yticks(range(len(names)), names)
    axes.set(ylim=(len(names) - 0.4, -0.6), xlim=(-0.5, 1.02))
    axes.axvline(0, color=QUIET, lw=1)
    axes.axvline(1, color=QUIET, lw=1, ls="--")
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", color=GRID)
    axes.tick_params(axis="y", labelcolor=INK)
    title(axes, "Range and median of α at changes (1 between them)")
