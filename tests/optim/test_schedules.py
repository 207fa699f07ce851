import copy
import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, strategies as st

from binaryrelax import GeometricGrowth, Hard, LinearMix


def test_the_papers_schedule():
    schedule = GeometricGrowth()
    assert schedule(0) == schedule(390) == 1.0
    assert schedule(391) == 1.02
    assert 100 < schedule(93_839) < 200
    assert schedule(93_840) == math.inf


@given(
    target=st.floats(1, 1e6),
    every=st.integers(1, 50),
    num_growths=st.integers(1, 300),
    rest=st.integers(1, 50),
)
def test_reaching_ends_phase_one_at_the_target(target, every, num_growths, rest):
    steps = num_growths * every + min(rest, every)
    schedule = GeometricGrowth.reaching(target, phase_one_steps=steps, every=every)
    assert math.isclose(schedule(steps - 1), target, rel_tol=1e-9)
    assert schedule(0) == 1.0
    assert schedule(steps) == math.inf


def test_linear_mix_is_linear_in_the_mixing_weight():
    schedule = LinearMix(start=10, end=20)
    strengths = [schedule(k) for k in range(8, 20)]
    mixing = [s / (s + 1) for s in strengths]
    assert mixing == pytest.approx([0, 0, 0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
    assert schedule(20) == schedule(10**9) == math.inf


def test_hard_is_infinite_from_the_first_step():
    assert Hard()(0) == math.inf


@pytest.mark.parametrize("schedule", [GeometricGrowth(), LinearMix(2, 9), Hard()], ids=repr)
def test_copies_and_pickles(schedule):
    assert pickle.loads(pickle.dumps(schedule)) == copy.deepcopy(schedule) == schedule
    assert len({schedule, copy.copy(schedule)}) == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GeometricGrowth(initial=-1.0), r"GeometricGrowth\(initial=-1.0\).*>= 0"),
        (lambda: GeometricGrowth(initial=math.nan), r"initial=nan"),
        (lambda: GeometricGrowth(growth=0.9), r"GeometricGrowth\(growth=0.9\).*>= 1"),
        (lambda: GeometricGrowth(growth="fast"), r"growth='fast'"),
        (lambda: GeometricGrowth(every=0), r"GeometricGrowth\(every=0\).*whole number >= 1"),
        (lambda: GeometricGrowth(every=2.5), r"every=2.5"),
        (lambda: GeometricGrowth(harden_at=-1), r"harden_at=-1"),
        (lambda: GeometricGrowth(growth=2.0, every=1), r"overflows before harden_at"),
        (lambda: LinearMix(-1, 5), r"LinearMix\(start=-1\)"),
        (lambda: LinearMix(5, 5), r"LinearMix\(end=5\).*>= 6"),
        (lambda: GeometricGrowth.reaching(0.5, phase_one_steps=9, every=2), r"target=0.5.*>= init"),
        (lambda: GeometricGrowth.reaching(150.0, phase_one_steps=0, every=2), r"phase_one_steps=0"),
        (lambda: GeometricGrowth.reaching(150.0, phase_one_steps=9, every=9), r"λ never grows"),
    ],
)
def test_wrong_values_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_numbers_of_other_types_become_plain_ones():
    """A checkpoint compares how schedules look."""
    whole, real = np.int64, np.float32
    pairs = [
        (LinearMix(whole(2), whole(9)), LinearMix(2, 9)),
        (GeometricGrowth(real(1), 2, whole(3), whole(9)), GeometricGrowth(1.0, 2.0, 3, 9)),
        (
            GeometricGrowth.reaching(real(150), phase_one_steps=whole(30), every=whole(3)),
            GeometricGrowth.reaching(150.0, phase_one_steps=30, every=3),
        ),
    ]
    for other, plain in pairs:
        assert other == plain and repr(other) == repr(plain)
        assert json.dumps(vars(other)) == json.dumps(vars(plain))
