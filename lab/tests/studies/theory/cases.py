"""What the tests of the theory are generated from."""

import torch
from hypothesis import strategies as st

from binaryrelax_lab.studies.theory.problems import Quadratic
from binaryrelax_lab.studies.theory.statements import MOST_WEIGHTS, SETS, STRENGTHS, Case, make_step

NUMBERS = st.one_of(
    st.integers(-6, 6).map(float),
    st.floats(-10, 10, width=32).filter(lambda x: x == 0 or abs(x) > 1e-3),
    st.sampled_from([0.0, 0.5, -0.5, 0.1, 1 / 3, -2.5]),
)
STEP_SIZES = st.sampled_from([2.0, 1.0, 0.5, 0.1, 0.01, 1e-3])


@st.composite
def vectors(draw, num_weights=None):
    """float64 vectors of 1 to 4 weights, with zeros and equal entries."""
    n = num_weights or draw(st.integers(1, MOST_WEIGHTS))
    return torch.tensor(draw(st.lists(NUMBERS, min_size=n, max_size=n)), dtype=torch.float64)


@st.composite
def steps(draw):
    """A step of BinaryConnect on any set of the list; now and then one to y = 0 or along y."""
    quantizer, y, step_size = draw(st.sampled_from(SETS)), draw(vectors()), draw(STEP_SIZES)
    gradient = draw(st.one_of(vectors(len(y)), st.just(y / step_size), st.just(-y)))
    return Case(quantizer, make_step(quantizer, y, gradient, step_size))


@st.composite
def quadratics(draw):
    """A strongly convex quadratic and a set to minimise it over."""
    L = draw(st.sampled_from([0.1, 1.0, 30.0]))
    condition = draw(st.sampled_from([1.0, 3.0, 100.0]))
    n, seed = draw(st.integers(1, MOST_WEIGHTS)), draw(st.integers(0, 10_000))
    return Quadratic.random(n, L=L, mu=L / condition, seed=seed), draw(st.sampled_from(SETS))


strengths = st.sampled_from(STRENGTHS)
