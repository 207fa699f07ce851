"""The rows of the table of statements that do not read "holds": each has a counterexample."""

from typing import Any

_FILE = "tests/lab/theory/test_counterexamples.py"

FAILURES: list[dict[str, Any]] = [
    {
        "label": "prop:global, any continuous f",
        "says": "f(x*_λ) -> f*_Q if f is only continuous (and bounded below)",
        "test": f"{_FILE}::test_relaxed_minimizers_escape_to_another_value_prop_global",
        "cases": 3,
        "failures": 3,
        "result": "fails",
        "counterexample": "f(u, v) = 1 - ρ(u)(1/2 + 1/u)φ(v u^2) over two ternary weights: "
        "x*_λ = (u, u^-2) with u = (2λ)^(1/3) runs to infinity beside the line v = 0, "
        "dist(x*_λ, Q) -> 0, but f(x*_λ) -> 1/2 while f*_Q = 1. It holds where minimizers stay "
        "bounded.",
    },
    {
        "label": "lem:alt_update, local minimizer at 0",
        "says": "x^{k+1} is a local minimizer over Q also where it is 0",
        "test": f"{_FILE}::test_update_to_zero_is_no_local_minimizer_lem_alt_update",
        "cases": 2,
        "failures": 2,
        "result": "fails",
        "counterexample": "f(x) = ||x - (-13/2, -5/2)||^2/2, γ = 1/4, y^k = (2, 1): y^{k+1} = 0, "
        "and on the line of (1, 1) the point to project is (-1/2, 1/2), itself in Q. The proof of "
        "the theorem does not need this half: at 0, ∂χ_Q holds all that is orthogonal to a line.",
    },
    {
        "label": "lem:othor with TWN's threshold",
        "says": "α_k >= 0 with the projection (7) of the paper's ternary experiments",
        "test": f"{_FILE}::test_threshold_of_twn_breaks_approximate_orthogonality_lem_othor",
        "cases": 1,
        "failures": 1,
        "result": "fails outside its assumptions",
        "counterexample": "y^k = (1, 0.5), y^{k+1} = (1, 0.55): α_k = -0.19, because (7) is not "
        "the nearest point. lem:upper fails with it.",
    },
    {
        "label": "prop:alpha with one scale per layer",
        "says": "short steps of the whole network have α_k = 1",
        "test": f"{_FILE}::test_short_step_of_two_layers_has_another_alpha_prop_alpha",
        "cases": 1,
        "failures": 1,
        "result": "fails outside its assumptions",
        "counterexample": "layers (10, 10) and (0.1, 0.02): the second changes line, the network "
        "moves by 1 % of its norm, α_k = 0.38. Layer by layer it holds.",
    },
    {
        "label": "thm, its assumption α_k >= α̲ > 0",
        "says": "can be met with Σγ_k = inf and Σγ_k² < inf",
        "test": f"{_FILE}::test_lines_change_for_ever_when_no_critical_point_is_in_q_thm",
        "cases": 1,
        "failures": 1,
        "result": "only if f has a critical point in Q (argued for σ = 0, measured with noise)",
        "counterexample": "f(x) = ||x - (2, 1)||^2/2 over two binary weights, no noise: x jumps "
        "between (2, 2) and (2, -2) for ever, α_k <= γ_k/2 at each jump, "
        "liminf dist(0, ∂h)^2 = 1/2 where the bound would be 0.",
    },
]
