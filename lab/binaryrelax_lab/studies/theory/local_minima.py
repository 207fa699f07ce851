"""Does relaxation skip bad local minima? Counted where all of them can be listed.

A point x ≠ 0 of Q has, near it, no other line of Q. So x is a local minimizer of f on Q exactly
when it minimises f on its own line: every line has one, and all of them but the best are bad.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from torch import Tensor

from binaryrelax import Binary, GeometricGrowth, PerChannel, Quantizer, Schedule, Ternary
from binaryrelax_lab.report.drawing import GRID, INK, label, panels, title
from binaryrelax_lab.studies.theory.families import Family, PhaseRetrievalFamily, QuadraticFamily
from binaryrelax_lab.studies.theory.iterations import (
    BINARY_CONNECT,
    PROJECTED_GRADIENT,
    Descent,
    Method,
    cosine_rates,
    stepped_rates,
)
from binaryrelax_lab.studies.theory.lines_of_q import canonical_codes, code_vectors
from binaryrelax_lab.studies.theory.method_colours import colour_of
from binaryrelax_lab.studies.theory.relaxed_objective import ENOUGH_DIGITS
from binaryrelax_lab.studies.theory.significant_digits import rounded

PHASE_ONE = 4 / 5  # of the steps, as in the paper
FAST = 1 / 5  # of Phase I: where a fast growth has reached its last λ
FINAL_STRENGTHS = (10, 100, 1000)


@dataclass(frozen=True)
class EarlyGrowth(Schedule):
    """λ grows as in `growth` but then stays, until it is inf from step `harden_at` on."""

    growth: GeometricGrowth
    harden_at: int

    def __call__(self, step: int) -> float:
        if step >= self.harden_at:
            return math.inf
        return self.growth(min(step, self.growth.harden_at - 1))


@dataclass(frozen=True, eq=False)
class Case:
    """One experiment: a family of problems, a set Q, and how to descend.

    Args:
        rate: the first learning rate, times L for the quadratics.
        stepped: the paper's stepped learning rate instead of a cosine.
        noise: σ of the gradient.
    """

    name: str
    family: Family
    quantizer: Quantizer
    rate: float
    num_steps: int = 1000
    stepped: bool = False
    noise: float = 0.0
    codes: Tensor = field(init=False, repr=False)

    def __post_init__(self) -> None:
        codes = code_vectors(self.quantizer, self.family.minimisers.shape[1])
        object.__setattr__(self, "codes", codes)

    @property
    def rates(self) -> list[float]:
        """The learning rate of each step."""
        shape = stepped_rates if self.stepped else cosine_rates
        return shape(self.rate, self.num_steps)


def local_minima(*, num_members: int = 20, num_starts: int = 50) -> dict[str, Any]:
    """How often each method ends in the best minimizer, for every case."""
    cases = [run_case(case, num_starts) for case in all_cases(num_members)]
    return {
        "members": num_members,
        "starts": num_members * num_starts,
        "phase_one": PHASE_ONE,
        "fast": FAST,
        "cases": cases,
    }


def all_cases(num_members: int) -> list[Case]:
    """Quadratics with binary and ternary weights, and one problem that is not convex."""
    binary, ternary = Binary(granularity=PerChannel()), Ternary(granularity=PerChannel())
    ten = QuadraticFamily.random(num_members, 10, condition=10.0, seed=0)
    eight = QuadraticFamily.random(num_members, 8, condition=10.0, seed=1)
    sixteen = QuadraticFamily.random(num_members, 16, condition=100.0, seed=2)
    phases = PhaseRetrievalFamily.random(num_members, 10, num_measurements=40, seed=3)
    return [
        Case("quadratic, binary, n = 10", ten, binary, 0.5),
        Case("the same with noise, σ = 1", ten, binary, 0.5, noise=1.0),
        Case("the same, stepped learning rate", ten, binary, 0.5, stepped=True),
        Case("quadratic, binary, n = 16", sixteen, binary, 0.5),
        Case("quadratic, ternary, n = 8", eight, ternary, 0.5),
        Case("phase retrieval, binary, n = 10", phases, binary, 0.3),
    ]


def all_methods(num_steps: int) -> list[Method]:
    """The projected gradient, BinaryConnect, and BinaryRelax with six schedules of λ."""
    phase_one = round(PHASE_ONE * num_steps)
    relaxed = []
    for final in FINAL_STRENGTHS:
        slow = GeometricGrowth.reaching(final, phase_one_steps=phase_one, every=1)
        early = GeometricGrowth.reaching(final, phase_one_steps=round(FAST * phase_one), every=1)
        relaxed.append(Method(f"BinaryRelax, λ to {final}, slow", slow))
        relaxed.append(Method(f"BinaryRelax, λ to {final}, fast", EarlyGrowth(early, phase_one)))
    return [PROJECTED_GRADIENT, BINARY_CONNECT, *relaxed]


def run_case(case: Case, num_starts: int) -> dict[str, Any]:
    """Runs all methods from the same random starts and says where they end."""
    num_members, num_weights = case.family.minimisers.shape
    source = torch.Generator().manual_seed(1)
    shape = (num_members, num_starts, num_weights)
    starts = torch.randn(shape, generator=source, dtype=torch.float64)
    methods = all_methods(case.num_steps)
    descent = Descent(case.family.gradient, case.quantizer, case.rates, case.noise)
    ends = descent.last(methods, starts)
    nearest = descent.project(case.family.minimisers[:, None])
    minima = Minima.of(case)
    hard = minima.share_of_best(ends[methods.index(BINARY_CONNECT)])
    records = [
        {**outcome(method.name, minima, end), **gain(minima.share_of_best(end) - hard)}
        for method, end in zip(methods, ends, strict=True)
    ]
    return {
        "name": case.name,
        "weights": num_weights,
        "lines": len(case.codes),
        "steps": case.num_steps,
        "rate": case.rate,
        "stepped": case.stepped,
        "noise": case.noise,
        "methods": [*records, outcome("float minimiser, projected", minima, nearest)],
    }


@dataclass(frozen=True, eq=False)
class Minima:
    """The value of the local minimizer on each line, sorted, for each member of a family."""

    family: Family
    values: Tensor  # (members, lines), increasing

    @classmethod
    def of(cls, case: Case) -> "Minima":
        """All local minimizers of a case."""
        return cls(case.family, case.family.best_on_lines(case.codes).sort(1).values)

    def reached(self, points: Tensor) -> Tensor:
        """f at the minimizer of the line through each point of Q, (members, points)."""
        return self.family.best_on_lines(canonical_codes(points))

    def is_best(self, reached: Tensor) -> Tensor:
        """Which of these values are the smallest of all lines."""
        best = self.values[:, :1]
        return reached <= best + ENOUGH_DIGITS * self.values[:, -1:]

    def share_of_best(self, points: Tensor) -> Tensor:
        """How many of the points lie on the best line, for each member."""
        return self.is_best(self.reached(points)).double().mean(1)

    def rank(self, reached: Tensor) -> Tensor:
        """The share of lines with a smaller value: 0 for the best."""
        slack = ENOUGH_DIGITS * self.values[:, -1:]
        better = torch.searchsorted(self.values, (reached - slack).contiguous())
        return better.double() / self.values.shape[1]


def outcome(name: str, minima: Minima, points: Tensor) -> dict[str, Any]:
    """How good the minimizers are that one method has reached, (members, starts, weights)."""
    reached = minima.reached(points)
    shares = minima.share_of_best(points)
    best, median = minima.values[:, :1], minima.values.median(1, keepdim=True).values
    low, high = interval_over_members(shares)
    return {
        "method": name,
        "best": rounded(shares.mean()),
        "low": rounded(low),
        "high": rounded(high),
        "rank": rounded(minima.rank(reached).mean()),
        "excess": rounded(((reached - best) / (median - best)).mean()),
    }


def gain(differences: Tensor) -> dict[str, float]:
    """How much more often than BinaryConnect, from the same starts on the same members."""
    low, high = interval_over_members(differences)
    return {
        "gain": rounded(differences.mean()),
        "gain_low": rounded(low),
        "gain_high": rounded(high),
    }


def interval_over_members(shares: Tensor, *, num_draws: int = 2000) -> tuple[float, float]:
    """A 95 % interval of the mean share: members of the family are drawn again (bootstrap).

    Starts on the same member are alike, so that counting all starts as independent would make the
    interval too short.
    """
    source = torch.Generator().manual_seed(2)
    drawn = torch.randint(len(shares), (num_draws, len(shares)), generator=source)
    means = shares[drawn].mean(1).sort().values
    return float(means[int(0.025 * num_draws)]), float(means[int(0.975 * num_draws) - 1])


def draw_local_minima(data: dict[str, Any]) -> Figure:
    """A panel for each case, a row for each method, with 95 % intervals."""
    figure, places = panels(2, 3, size=(15, 9), sharey=True)
    for axes, case in zip(places, data["cases"], strict=True):
        _draw_case(axes, case)
    for axes in places[3:]:
        label(axes, x=f"ends in the best of all minimizers, {data['starts']:,} starts")
    return figure


def _draw_case(axes: Axes, case: dict[str, Any]) -> None:
    names = [record["method"] for record in case["methods"]]
    for row, record in enumerate(case["methods"]):
        colour = colour_of(record["method"])
        axes.plot([record["low"], record["high"]], [row, row], color=colour, lw=3, alpha=0.35)
        axes.plot(record["best"], row, "o", color=colour, ms=9)
        axes.annotate(
            f"{100 * record['best']:.1f} %", (record["high"], row), xytext=(8, -4),
            textcoords="offset points", color=INK, size=10.5,
        )  # fmt: skip
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlim(-0.02, 0.72)
    axes.xaxis.set_major_formatter(PercentFormatter(1, 0))
    axes.grid(axis="x", color=GRID, lw=0.8)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", labelcolor=INK, labelsize=11.5)
    name = case["name"][0].upper() + case["name"][1:]
    title(axes, f"{name}\n{case['lines']:,} minimizers")
