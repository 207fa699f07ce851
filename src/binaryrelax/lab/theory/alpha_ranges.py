"""Which α occur: on the test problems, layer by layer, and in the network of the demo."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from binaryrelax import Binary, Quantizer, Ternary, TernaryThreshold, Uniform, measure, monitor
from binaryrelax.lab.data import load_fashion_mnist
from binaryrelax.lab.engine.trainer import Trainer
from binaryrelax.lab.recipes import demo_bwn, demo_twn
from binaryrelax.lab.recipes.recipe import Recipe
from binaryrelax.lab.theory.iterations import (
    LayerWise,
    Trajectory,
    binary_connect,
    constant,
    harmonic,
)
from binaryrelax.lab.theory.problems import (
    Problem,
    Quadratic,
    TwoLayerNetwork,
    figure_one,
    random_numbers,
)
from binaryrelax.lab.theory.quantities import alphas, changes_line, movements
from binaryrelax.lab.theory.rounding import rounded

SETS: tuple[Quantizer, ...] = (Binary(), Ternary(), Uniform(bits=3), TernaryThreshold())
ROUNDING = 1e-5  # of a smaller relative movement, α is the rounding of x
NUM_STEPS = 1000
NUM_DEMO_STEPS = 30


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
    parts = zip(run.x.split(sizes, 1), run.y.split(sizes, 1), strict=True)
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
    trainer = Trainer(recipe, load_fashion_mnist(), seed=0)
    trainer.start()
    found: dict[str, list[tuple[float, float]]] = {}
    with monitor(trainer.optimizer):
        for _, _step in zip(range(NUM_DEMO_STEPS), trainer.steps(), strict=False):
            for record in measure(trainer.optimizer):
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
